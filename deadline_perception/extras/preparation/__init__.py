"""Prepares the segments of a network for the engine that runs them on a CPU: once, in a process of its own."""
