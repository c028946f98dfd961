"""The command line: each command converts arguments into one library call and its output."""
