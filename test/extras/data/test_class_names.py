import numpy as np
import pytest
from plain_images import grey
from read_sequences import boxes_of, classes_of, crowd_of, object_counts, opened

from deadline_perception.extras.data.class_names import read_class_mapping, with_mapping
from deadline_perception.extras.data.records import Frame, GroundTruth, Sequence

GROUND_TRUTH = GroundTruth(np.arange(16).reshape(4, 4), [0, 1, 2, 2], [False, True, False, False])
FRAMES = [
    Frame(str(at), at, lambda: grey(4, 4), None, known)
    for at, known in enumerate((GROUND_TRUTH, None))
]
DRIVE = Sequence('drive', ('car', 'truck', 'person'), tuple(FRAMES))


def test_a_mapping_renames_merges_and_counts_what_it_leaves_out():
    mapping = {'car': 'vehicle', 'truck': 'vehicle', 'person': None, 'tram': 'vehicle'}
    with pytest.warns(UserWarning, match='drive: boxes left out: 2 of person'):
        mapped = with_mapping(DRIVE, mapping)
    assert mapped.class_names == ('vehicle',) and object_counts(mapped) == [2, None]
    assert classes_of(mapped) == ['vehicle'] * 2 and crowd_of(mapped) == [False, True]
    assert boxes_of(mapped) == boxes_of(DRIVE)[:2]
    with pytest.warns(UserWarning, match='the class mapping names none of car, truck, person'):
        assert with_mapping(DRIVE, {'vehicel': 'car'}).class_names == DRIVE.class_names
    with pytest.raises(ValueError, match='leaves out all classes of drive'):
        with_mapping(DRIVE, dict.fromkeys(DRIVE.class_names))


@pytest.mark.parametrize('name', ['classes.json', 'classes.yaml'])
def test_reads_json_and_yaml(tmp_path, name, coco_folder):
    texts = {'json': '{"vehicle": "car", "bike": null}', 'yaml': 'vehicle: car\nbike: ~\n'}
    (tmp_path / name).write_text(texts[name[-4:]])
    assert read_class_mapping(tmp_path / name) == {'vehicle': 'car', 'bike': None}
    sequence = opened(coco_folder, classes=tmp_path / name)
    assert sequence.class_names == ('car', 'motorbike', 'traffic_light', 'traffic_sign')
    assert [frame.ground_truth.labels.tolist() for frame in sequence.frames] == [[0, 2], [3]]
