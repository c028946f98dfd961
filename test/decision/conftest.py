"""What decisions are tested with."""
from made_up_decisions import foreign_path, make_forecast, make_quality, path_space  # noqa: F401  fixtures
