import argparse
import os

import pytest
from made_up_models import small_yolo

from deadline_perception.extras.external_models.exported.class_list import read_classes
from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.tools.support.model_arguments import add_model_arguments, read_models


@pytest.mark.parametrize(
    'name, text',
    [
        ('names.txt', 'car\nperson\n\n'),
        ('names.json', '["car", "person"]'),
        ('list.yaml', '- car\n- person\n'),
        ('data.yaml', 'path: .\nnc: 2\nnames:\n  1: person\n  0: car\n'),
        ('old.yaml', 'names: [car, person]\n'),
    ],
)
def test_classes_are_read_from_the_files_that_teams_have(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_classes(str(tmp_path / name)) == ('car', 'person') == read_classes('car, person')
    assert read_classes(['car', 'person']) == ('car', 'person')
    # A number without a name moves no other name.
    (tmp_path / 'data.yaml').write_text('names: {0: car, 2: person}\n')
    assert read_classes(str(tmp_path / 'data.yaml')) == ('car', 'class_1', 'person')
    names = read_classes('coco')
    assert (len(names), names[0], names[2], names[-1]) == (80, 'person', 'car', 'toothbrush')


def words(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument('models', nargs='+')
    add_model_arguments(parser)
    return parser.parse_args(list(map(str, arguments)))


def test_models_are_told_apart_by_their_words(tmp_path):
    (tmp_path / 'b').mkdir()
    first = small_yolo(tmp_path, name='a', classes=2)
    second = small_yolo(tmp_path / 'b', name='a', classes=1)
    options = '--classes car,bus --classes __background__,dog --classes cat --input-size 64 96'
    models = (first, 'ssd300_vgg16:w/my net.pth', second, 'street', 'street:s00000-w1.00-p100-h2')
    found = read_models(words(*models, *options.split()))
    assert [(spec.name, spec.kind, spec.classes) for spec in found] == [
        ('a', 'onnx', ('car', 'bus')),
        ('my_net', 'torchvision', (None, 'dog')),
        ('a_2', 'onnx', ('cat',)),
        ('street', 'multi-path', ()),
        ('street.s00000_w1.00_p100_h2', 'multi-path', ()),
    ]
    assert found[1].architecture == 'ssd300_vgg16' and found[0].input_size == (64, 96)
    assert found[4].path == 's00000-w1.00-p100-h2'
    with pytest.raises(ModelError, match='expected once, or once for each of 2 models'):
        read_models(words(first, second, *['--classes', 'x'] * 3))


NO_NAMES = b'[' * 100_000, b'\xff\xfe', b'x' * 2_000_000, b'["\x1b[31m"]', 'pipe'
NOT_IN_JSON = b'a: &a [x, x]\nb: [*a, *a]', b'{"a": 1, "a": 2}'
NONE = b'{"names": 3}', b'{"a": {"b": 1}}', b'[]', b'[1, 2]', b'{', b'{"names": {}}'
LONG_NUMBER = b'{"names": {"' + b'9' * 5000 + b'": "car"}}'


@pytest.mark.parametrize(
    'name, contents',
    [
        ('names.txt', NO_NAMES),
        ('names.yaml', NO_NAMES + NOT_IN_JSON),
        ('names.json', (*NO_NAMES, *NOT_IN_JSON, *NONE, LONG_NUMBER)),
    ],
)
def test_bad_files_of_names_are_refused_in_one_line(tmp_path, name, contents):
    file = tmp_path / name
    for content in contents:
        if content == 'pipe':
            file.unlink()
            os.mkfifo(file)
        else:
            file.unlink(missing_ok=True)
            file.write_bytes(content)
        with pytest.raises(ValueError, match='name') as refused:
            read_classes(str(file))
        assert str(refused.value).isprintable() and len(str(refused.value)) < 1000
