"""What elastic and tune learn from and score with: folders of classes, objects cut out, annotated images; tables."""

from pathlib import Path

import cv2
import pytest
from annotated_images import write_coco
from invented_networks import make_magnifier
from plain_images import grey

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.tools.elastic_data import read_data, save_quality, score_paths

SIZE = (24, 32)


def class_folders(folder: Path, counts: dict[str, int]) -> str:
    """Images whose blue is their class and whose green is their number."""
    for label, (name, count) in enumerate(counts.items()):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            image = grey(20, 20, (label, number, 0))
            cv2.imwrite(str(folder / name / f'{number:03}.png'), image)
    return str(folder)


def annotated(folder: Path, count: int, names: tuple[str, ...] = ('thing', 'other')) -> str:
    """COCO: an object in the middle of each image, of the first class in even and of the second in odd ones."""
    images = {f'{number:03}.png': grey(40, 64, 30) for number in range(count)}
    for number, image in enumerate(images.values()):
        image[10:20, 16:32] = 100 + number
    boxes = [(number, number % 2, (16, 10, 16, 10)) for number in range(count)]
    return str(write_coco(folder / 'val.json', images, boxes, names))


def test_of_a_folder_of_classes_each_fourth_image_scores_and_none_of_them_is_learnt_from(tmp_path):
    data = read_data(class_folders(tmp_path, {'cat': 6, 'dog': 10}), False, SIZE, 100)
    assert data.class_names == data.scoring.class_names == ('cat', 'dog')
    assert (len(data.learning), len(data.scoring)) == (12, 4)
    assert data.learning[0].shape == (*SIZE, 3)
    learnt, scored = (
        [(int(image[0, 0, 0]), int(image[0, 0, 1])) for image in images]
        for images in (data.learning, data.scoring.images)
    )
    assert not set(learnt) & set(scored) and len(set(learnt + scored)) == 16
    assert [label for label, _ in learnt] == list(data.labels)
    assert [label for label, _ in scored] == list(data.scoring.labels)


def test_too_few_images_and_what_is_neither_folders_nor_annotated_are_refused(tmp_path):
    with pytest.raises(ValueError, match='holds images of 0 classes, expected a folder of images'):
        read_data(str(tmp_path), False, SIZE, 100)
    for detects in (True, False):
        with pytest.raises(ValueError, match='holds 7 labelled images, expected at least 8'):
            read_data(annotated(tmp_path, 7), detects, SIZE, 100)


def test_a_detector_has_average_precision_of_the_classes_in_common(tmp_path):
    # finds one box of the class thing, from a quarter to half of width and height
    network = make_magnifier()
    paths = list(network.path_space)[:2]
    # the objects that score are things
    data = read_data(annotated(tmp_path, 8, ('other', 'thing')), True, SIZE, 8)
    scores = score_paths(network, data, paths)
    assert scores == pytest.approx(dict.fromkeys(paths, 1.0))
    file = save_quality(network, scores, 'd', tmp_path / 'n.safetensors')
    assert PathQuality.load(file, network.path_space).metric == 'ap'
    (tmp_path / 'foreign').mkdir()
    foreign = read_data(annotated(tmp_path / 'foreign', 8, ('cow', 'sheep')), True, SIZE, 8)
    with pytest.raises(ValueError, match='names cow, sheep, the network knows thing'):
        score_paths(network, foreign, paths)
