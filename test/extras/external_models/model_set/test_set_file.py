from dataclasses import replace

import pytest
from made_up_detector import TINY
from made_up_models import CLASSES, small_yolo, ssdlite_weights

from deadline_perception.extras.external_models.exported.model_error import ModelError
from deadline_perception.extras.external_models.model_set.set_file import (
    ModelSpec,
    SetFile,
    check_memory,
    load_model,
    load_set,
)
from deadline_perception.extras.weights_writer import build_detector, save_detector


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('models')
    small_yolo(folder)
    ssdlite_weights(folder)
    save_detector(build_detector(TINY, ('car', 'bike')), folder / 'tiny.safetensors')
    return folder


@pytest.fixture
def content(folder):
    files = [folder / name for name in ('small_yolo.onnx', 'tiny.safetensors', 'ssdlite.pth')]
    name = 'ssdlite320_mobilenet_v3_large'
    models = (
        ModelSpec('yolo', 'onnx', files[0], ('car', None, 'bike'), memory_mb=12.5),
        ModelSpec('multi', 'multi-path', files[1]),
        ModelSpec('ssd', 'torchvision', files[2], CLASSES, architecture=name),
    )
    return SetFile(models, ('car', 'bike', 'person'))


def test_a_set_is_read_back_and_its_networks_loaded(folder, content):
    file = folder / 'sets/set.yaml'
    content.save(file)
    assert '../small_yolo.onnx' in file.read_text() and str(folder) not in file.read_text()
    back = SetFile.load(file)
    read = [replace(model, file=model.file.resolve()) for model in back.models]
    assert tuple(read) == content.models
    models = load_set(file)
    assert models.class_names == ('car', 'bike', 'person')
    assert list(models.models) == ['yolo', 'multi', 'ssd']
    assert models.unseen('yolo') == ('person',) and models.config_name.startswith('set-')
    assert 'OpenVINO' in models.engine.identity and 'eager' in models.engine.identity


def test_one_path_or_another_engine_makes_a_model(folder, tmp_path):
    space = build_detector(TINY, ('car',)).path_space
    spec = ModelSpec('narrow', 'multi-path', folder / 'tiny.safetensors', path=str(space.smallest))
    assert len(load_model(spec, engine='eager').path_space) == 1
    with pytest.raises(ModelError, match="model narrow: execution path is 'p5'"):
        load_model(ModelSpec('narrow', 'multi-path', folder / 'tiny.safetensors', path='p5'))
    pytest.importorskip('onnxruntime')
    spec = ModelSpec('yolo', 'onnx', folder / 'small_yolo.onnx', CLASSES, engine='onnxruntime')
    SetFile((spec,)).save(tmp_path / 'set.yaml')
    assert SetFile.load(tmp_path / 'set.yaml').models[0].engine == 'onnxruntime'
    assert load_model(spec).engine.identity.startswith('onnxruntime ')


def test_memory_that_does_not_hold_all_models_is_told_with_what_each_takes(content):
    check_memory(content.models, 13.0)
    with pytest.raises(ModelError, match=r'take 12 MB of memory \(yolo 12.*--memory-limit 10'):
        check_memory(content.models, 10.0)


@pytest.mark.parametrize(
    'text, said',
    [
        ('', 'set is None, expected object'),
        ('[', 'cannot be used: it is no YAML'),
        ('format: 1\nmodels: {}', 'set.models is {}, expected array'),
        ('format: 2\nmodels: []', 'set.format is 2, expected int <= 1'),
        ('format: 1\nmodels: []', 'models of the set are none'),
        (
            'format: 1\nmodels: [{name: a, kind: multi-path, file: a, colour: red}]',
            "model 1 has 'colour', expected name, kind, file",
        ),
        ('format: 1\nmodels: [{name: a, kind: onnx, file: a.onnx}]', 'model a has no classes'),
        ('format: 1\nmodels: [{name: a-b, kind: onnx, file: a.onnx}]', "name of a model is 'a-b'"),
        (
            'format: 1\nmodels: [{name: a, kind: tensorrt, file: a}]',
            "kind of model a is 'tensorrt', expected one of onnx",
        ),
        (
            'format: 1\nmodels: [{name: a, kind: onnx, file: a, classes: [x], engine: tensorflow}]',
            "engine of model a is 'tensorflow', expected one of openvino",
        ),
        (
            'format: 1\nmodels: [{name: a, kind: multi-path, file: a}, {name: a, kind: multi-path, file: b}]',
            'of distinct names',
        ),
    ],
)
def test_files_that_hold_something_else_are_refused(tmp_path, text, said):
    (tmp_path / 'set.yaml').write_text(text)
    with pytest.raises(ModelError, match=said):
        SetFile.load(tmp_path / 'set.yaml')
