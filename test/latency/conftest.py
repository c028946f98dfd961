"""What times are taken of."""
from made_up_decisions import foreign_path  # noqa: F401  fixture
from made_up_matrices import images, network, path_space  # noqa: F401  fixtures
