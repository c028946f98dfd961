from __future__ import annotations

import argparse

import pytest

pytest.importorskip('torch')

from deadline_perception.networks.external.model_error import ModelError  # noqa: E402
from deadline_perception.tools.model_words import (  # noqa: E402
    add_model_arguments,
    classes_of_set,
    coco_names,
    read_classes,
    read_models,
)


@pytest.mark.parametrize(('name', 'text'), [
    ('names.txt', 'car\nperson\n\n'), ('names.json', '["car", "person"]'), ('list.yaml', '- car\n- person\n'),
    ('data.yaml', 'path: .\nnc: 2\nnames:\n  1: person\n  0: car\n'), ('old.yaml', 'names: [car, person]\n')])
def test_classes_are_read_from_the_files_that_teams_have(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_classes(str(tmp_path / name)) == ('car', 'person') == read_classes('car, person')


def test_the_classes_of_coco_are_known():
    names = coco_names()
    assert (len(names), names[0], names[2], names[-1]) == (80, 'person', 'car', 'toothbrush')
    assert read_classes('coco') == names


@pytest.mark.parametrize('text', ['{"names": 3}', '{"a": {"b": 1}}', '[]', '[1, 2]', '{'])
def test_files_that_hold_no_names_are_refused(tmp_path, text):
    (tmp_path / 'names.json').write_text(text)
    with pytest.raises(ValueError, match='names'):
        read_classes(str(tmp_path / 'names.json'))


def words(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def test_models_are_told_apart_by_their_words(tmp_path):
    found = read_models(words('a.onnx', 'ssd300_vgg16:w/my net.pth', 'b/a.onnx', 'compact',
                              'compact:s000-w1.00-p100-h1',
                              '--classes', 'car,bus', '--classes', '__background__,dog', '--classes', 'cat',
                              '--input-size', 64, 96))
    assert [(spec.name, spec.kind, spec.classes) for spec in found] == [
        ('a', 'onnx', ('car', 'bus')), ('my_net', 'torchvision', ('__background__', 'dog')), ('a_2', 'onnx', ('cat',)),
        ('compact', 'multi-path', ()), ('compact.s000_w1.00_p100_h1', 'multi-path', ())]
    assert found[1].architecture == 'ssd300_vgg16' and found[0].input_size == (64, 96)
    assert found[4].path == 's000-w1.00-p100-h1'
    with pytest.raises(ModelError, match='expected once, or once for each of 2 models'):
        read_models(words('a.onnx', 'b.onnx', *['--classes', 'x'] * 3))


def test_one_list_of_classes_serves_all_models_and_is_renamed(tmp_path):
    (tmp_path / 'rename.json').write_text('{"car": "vehicle", "bus": "vehicle", "dog": null}')
    found = read_models(words('a.onnx', 'b.onnx', '--classes', 'car,bus,dog,cat', '--rename', tmp_path / 'rename.json'))
    assert [spec.classes for spec in found] == [('vehicle', 'vehicle', None, 'cat')] * 2


def test_a_set_names_the_classes_of_the_data_first():
    assert classes_of_set([('cat', 'car'), ('car', 'person')], ('person', 'train', 'car')) == ('person', 'car', 'cat')
