import numpy as np
import pytest
from invented_networks import make_classifier

from deadline_perception.extras.data.class_images import ClassImages
from deadline_perception.extras.evaluation.class_accuracy import measure_accuracy


def test_counts_images_whose_class_is_the_most_probable_one():
    network = make_classifier()  # sure of dog, whatever it sees
    data = ClassImages(np.zeros((4, 8, 8, 3), np.uint8), np.array([0, 0, 0, 1]), ('dog', 'cat'))
    paths = list(network.path_space)
    assert measure_accuracy(network, data, paths) == dict.fromkeys(paths, 0.75)
    data = ClassImages(np.zeros((1, 8, 8, 3), np.uint8), np.array([0]), ('horse',))
    with pytest.raises(ValueError, match="of class 'horse', expected one of cat, dog, fish"):
        measure_accuracy(make_classifier(), data, [])
