import pytest

from deadline_perception.extras.data import bdd100k, cityscapes, kitti
from deadline_perception.extras.data.class_maps import best_map, fitting_map, map_names, read_map
from deadline_perception.extras.external_models.exported.coco_names import COCO_NAMES

STREET = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign', 'person')


@pytest.mark.parametrize(
    'name, classes',
    [
        ('bdd100k', bdd100k.CLASS_NAMES),
        ('cityscapes', cityscapes.CLASS_NAMES),
        ('kitti', kitti.CLASS_NAMES),
        ('coco', COCO_NAMES),
    ],
)
def test_maps_name_classes_that_their_data_sets_have_and_the_weights_know(name, classes):
    mapping = read_map(name)
    older = {'motor', 'caravan'}  # names of other versions of the files
    assert set(mapping) - older <= set(classes) and set(mapping.values()) <= set(STREET)


def test_the_map_that_fits_is_found_and_names_of_the_network_stay():
    applied = fitting_map(bdd100k.CLASS_NAMES, STREET)
    assert applied.name == 'bdd100k' and applied.renamed['pedestrian'] == 'person'
    assert all(
        words in applied.described() for words in ('car, truck, bus as vehicle', '--classes')
    )
    assert fitting_map(kitti.CLASS_NAMES, STREET).name == 'kitti'
    applied = fitting_map(COCO_NAMES, STREET)
    assert applied.name == 'coco' and applied.renamed['car'] == 'vehicle'
    assert 'person' not in applied.renamed and fitting_map(STREET, STREET) is None
    assert best_map(['car', 'stop sign', 'dog'], STREET).name == 'coco'
    assert fitting_map(('dog',), STREET) is fitting_map(bdd100k.CLASS_NAMES, ('x',)) is None
    with pytest.raises(FileNotFoundError, match="'nosuch' is neither a file nor one of bdd100k"):
        read_map('nosuch')
    assert {'bdd100k', 'cityscapes', 'coco', 'kitti', 'voc', 'open_images'} == set(map_names())
