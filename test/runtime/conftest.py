"""What decisions are tested with."""
from made_up_decisions import make_forecast, make_quality, path_space  # noqa: F401  fixtures
