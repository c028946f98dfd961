import pytest

from deadline_perception.core.share_folder import DEFAULT_MODEL
from deadline_perception.nodes.detector_parameters import (
    PARAMETERS,
    check,
    make_rules,
    network_options,
)
from deadline_perception.nodes.parameters import validate


def values(**given):
    return validate(PARAMETERS, given)


def test_the_defaults_fit_each_other_and_make_every_part():
    check(values())
    assert network_options(values()).model == DEFAULT_MODEL
    assert make_rules(values()).spare_next_image
    assert not make_rules(values(policy='own.policy:Mine')).spare_next_image
    with pytest.raises(ValueError, match='cores'):
        check(values(cores='0-'))


def test_weights_of_classes_are_read():
    assert network_options(values()).class_weights == {}
    text = 'person=3, traffic light=0.5'
    assert network_options(values(class_weights=text)).class_weights == {
        'person': 3.0,
        'traffic light': 0.5,
    }
    with pytest.raises(ValueError, match="class_weights is 'person', expected NAME=NUMBER"):
        check(values(class_weights='person'))
