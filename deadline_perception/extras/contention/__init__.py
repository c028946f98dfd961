"""Artificial contention: programs that load the machine beside a detector, for the demo and for measurements."""
