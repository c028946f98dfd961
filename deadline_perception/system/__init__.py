"""What the operating system gives a process: priority, memory, threads, supervision of children."""
