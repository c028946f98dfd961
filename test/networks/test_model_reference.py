from pathlib import Path

import pytest
from invented_networks import make_single

from deadline_perception.networks.model_reference import (
    ModelKind,
    ModelNotFound,
    ModelReference,
    find_weights,
    load_network,
    load_weights,
)


@pytest.mark.parametrize(
    ('text', 'kind', 'file', 'detail'),
    [
        ('sets/mine.yaml', ModelKind.SET, 'sets/mine.yaml', ''),
        ('yolo.onnx', ModelKind.EXPORT, 'yolo.onnx', ''),
        ('yolo.TFLITE', ModelKind.EXPORT, 'yolo.TFLITE', ''),
        ('ssd300_vgg16:w/coco.pth', ModelKind.TORCHVISION, 'w/coco.pth', 'ssd300_vgg16'),
        ('my_package.networks:make', ModelKind.CALLABLE, 'my_package.networks', 'make'),
        ('compact', ModelKind.WEIGHTS, 'compact', ''),
        ('compact:s0-w1.00-p10-h0', ModelKind.WEIGHTS, 'compact', 's0-w1.00-p10-h0'),
        (Path('a/own.safetensors'), ModelKind.WEIGHTS, 'a/own.safetensors', ''),
    ],
)
def test_a_string_has_one_meaning(text, kind, file, detail):
    assert ModelReference.parse(text) == ModelReference(kind, Path(file), detail)


def test_weights_are_a_file_or_a_shipped_name_in_any_folder(tmp_path, monkeypatch, repository):
    monkeypatch.chdir(tmp_path)
    shipped = repository / 'models' / 'street.safetensors'
    assert find_weights('street') == find_weights(Path('models/street.safetensors')) == shipped
    assert find_weights(shipped, tmp_path) == shipped
    (tmp_path / 'large.safetensors').touch()
    assert find_weights('large', tmp_path) == tmp_path / 'large.safetensors'
    own = tmp_path / 'models' / 'street.safetensors'  # one in the working folder comes first
    own.parent.mkdir()
    own.touch()
    assert find_weights('models/street.safetensors') == own


@pytest.mark.parametrize('name', ['absent.safetensors', '.', 'large', '~nobody-here/large'])
def test_what_is_no_model_is_refused_with_those_that_exist(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    message = rf'weights file {name} does not exist; expected .* \(none\)'
    with pytest.raises(ModelNotFound, match=message):
        load_network(name, 'cpu', tmp_path / 'models')
    (tmp_path / 'street.safetensors').touch()
    with pytest.raises(ModelNotFound, match=r'\(street\)'):
        load_network(name, 'cpu', tmp_path)


def test_the_file_says_which_kind_of_network_it_holds_and_a_path_pins_it(tmp_path, repository):
    from deadline_perception.extras.several_networks.classifier.checkpoint import save_classifier
    from deadline_perception.extras.several_networks.classifier.network import (
        ClassifierConfig,
        NestedClassifier,
        build_classifier,
    )
    from deadline_perception.networks.multi_path.dense.network import DenseDetector

    file = tmp_path / 'small.safetensors'
    config = ClassifierConfig(channels=(4, 4, 4, 4), ratios=(0.5, 1.0))
    save_classifier(build_classifier(config, ('a', 'b')), file)
    assert type(load_weights(file)) is NestedClassifier
    assert list(map(str, load_network('small:l2', 'cpu', tmp_path, 'eager')[0].kept_paths)) == [
        'l2'
    ]
    with pytest.raises(ValueError, match="execution path is 'l9'"):
        load_network('small:l9', 'cpu', tmp_path, 'eager')
    network = load_weights(repository / 'models/street.safetensors')
    assert type(network) is DenseDetector
    pinned, weights = load_network(f'street:{network.path_space.smallest}', 'cpu', engine='eager')
    assert pinned.kept_paths == (network.path_space.smallest,)
    assert weights == repository / 'models' / 'street.safetensors'


def test_a_network_is_taken_as_it_is_and_what_a_callable_gives_must_be_one(tmp_path):
    network = make_single()
    assert load_network(network, 'cpu') == (network, Path('invented'))
    with pytest.raises(ModelNotFound, match='builtins:str gives str, expected a Network'):
        load_network('builtins:str', 'cpu', tmp_path)
