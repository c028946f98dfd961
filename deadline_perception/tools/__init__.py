"""The command line: each command turns arguments into one library call and its output."""
