"""The tiny detector."""
from made_up_detector import tiny_config, tiny_network  # noqa: F401  fixtures
