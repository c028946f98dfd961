"""Path spaces of multi-path networks with one or some settings of each operator."""

from deadline_perception.core.execution_path import PathSpace
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

BOTH = (1.0, 0.5)


def space_of(*skips: int, **settings) -> PathSpace:
    """One setting of each operator, but for these skips per stage and what is given; see `multi_path_space`."""
    usual = {
        'skips_per_stage': skips,
        'widths': (1.0,),
        'pyramid_widths': (1.0,),
        'proposals': (10,),
        'heads': 1,
    }
    return multi_path_space(**usual | settings)


SPACE = space_of(1, 1, widths=BOTH, pyramid_widths=BOTH, proposals=(10, 25, 100), heads=2)
MATRICES = space_of(1, 2, widths=BOTH, pyramid_widths=BOTH, proposals=(10, 40), heads=2)
