"""Which execution path a frame takes, given its remaining time."""
