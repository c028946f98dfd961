"""The one root of the package's own failures."""


class DeadlinePerceptionError(Exception):
    """A failure that one line explains; commands print it and return 1, nodes log it and degrade."""
