import numpy as np

from deadline_perception.core.execution_path import LEVEL, Operator, PathSpace, Segment
from deadline_perception.extras.evaluation.crop_accuracy import CropAccuracy
from deadline_perception.tools.crop_evaluation import accuracy_table

SPACE = PathSpace(
    (Operator('level', LEVEL, (0.5, 1.0), 'l', labels=('1', '2')),),
    (Segment('all', 'all', 'level', ('level',)),),
)


def test_the_table_names_levels_sizes_groups_and_paths():
    right = np.array(
        [[[0.5, 0.7], [1.0, np.nan], [0.0, 0.0]], [[0.6, 0.8], [1.0, np.nan], [1.0, 1.0]]]
    )
    found = CropAccuracy(
        tuple(SPACE),
        (8, 24),
        np.array([[9, 9], [4, 0], [1, 1]]),
        right,
        ('stop', 'vehicle', 'stop or give_way'),
    )
    table = accuracy_table(found)
    assert table['levels'] == ['l1', 'l2'] and table['sizes_px'] == [8, 24]
    assert table['accuracy'] == [[0.75, 0.7], [0.8, 0.8]]  # several possible classes are no class
    assert table['paths'] == {'l1': {'accuracy': 0.725}, 'l2': {'accuracy': 0.8}}
    expected = {'traffic_sign': [[0.5, 0.7], [0.6, 0.8]], 'road_user': [[1.0, None], [1.0, None]]}
    assert table['accuracy_of'] == expected
    assert table['objects']['vehicle'] == [4, 0]
    assert table['accuracy_of_largest_level']['vehicle'] == [1.0, None]
