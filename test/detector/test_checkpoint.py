import json

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from deadline_perception.detector.checkpoint import (CheckpointError, build_detector, load_detector, read_recipe,
                                                     save_detector)
from deadline_perception.detector.configuration import save_configuration
from deadline_perception.latency.device import DeviceNotFound, read_device_facts

NAMES = ('vehicle', 'bike')


@pytest.fixture(scope='module')
def saved(tmp_path_factory):
    network = build_detector('compact', NAMES, seed=3)
    file = tmp_path_factory.mktemp('weights') / 'compact.safetensors'
    save_detector(network, file, recipe='none')
    return network, file


def test_weights_survive_the_file(saved):
    network, file = saved
    loaded = load_detector(file)
    assert loaded.class_names == NAMES and loaded.network_hash == network.network_hash
    assert loaded.weights_hash == network.weights_hash
    assert build_detector('compact', NAMES, seed=4).weights_hash != network.weights_hash
    assert not loaded.training
    for name, tensor in network.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, atol=1e-3, rtol=1e-3)
    image = np.zeros((30, 40, 3), np.uint8)
    assert len(loaded.detect(image, loaded.path_space.smallest)) <= 100
    assert file.stat().st_size < 25e6
    assert not list(file.parent.glob('*.partial'))


def test_seed_decides_random_weights():
    one, same, other = (build_detector('compact', NAMES, seed=seed).rpn.convolution.weight for seed in (0, 0, 1))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_missing_file_is_named(tmp_path):
    with pytest.raises(CheckpointError, match='nowhere.safetensors does not exist'):
        load_detector(tmp_path / 'nowhere.safetensors')


@pytest.mark.parametrize('keep', [0, 5, 4000, -100])
def test_truncated_file_is_refused(saved, tmp_path, keep):
    broken = tmp_path / 'broken.safetensors'
    broken.write_bytes(saved[1].read_bytes()[:keep])
    with pytest.raises(CheckpointError, match='cannot be read as safetensors'):
        load_detector(broken)


def test_recipe_is_kept_with_the_weights(saved, tmp_path):
    assert read_recipe(saved[1]) == 'none'
    save_file({'weight': torch.zeros(3)}, tmp_path / 'foreign.safetensors')
    assert read_recipe(tmp_path / 'foreign.safetensors') is None
    with pytest.raises(CheckpointError, match='nowhere.safetensors cannot be read'):
        read_recipe(tmp_path / 'nowhere.safetensors')


def test_weights_beyond_half_precision_are_not_written(saved, tmp_path):
    network = build_detector('compact', NAMES)
    network.rpn.outputs.weight.data[0] = 7e4
    with pytest.raises(CheckpointError, match='rpn.outputs.weight is not finite in half .* within 65504'):
        save_detector(network, tmp_path / 'large.safetensors')
    assert not list(tmp_path.iterdir())


def test_foreign_file_is_refused(tmp_path):
    foreign = tmp_path / 'foreign.safetensors'
    save_file({'weight': torch.zeros(3)}, foreign)
    with pytest.raises(CheckpointError, match='holds nothing beside the weights, expected config and class_names'):
        load_detector(foreign)


@pytest.mark.parametrize('text', ['huge', '[]', '{"name": "huge"}', '[' * 100_000])
def test_a_configuration_that_is_none_is_refused(tmp_path, text):
    file = tmp_path / 'other.safetensors'
    save_file({'weight': torch.zeros(3)}, file, metadata={'config': text, 'class_names': json.dumps(NAMES)})
    with pytest.raises(CheckpointError, match='expected one of compact, orin, paper or a whole one: '):
        load_detector(file)


def test_weights_of_a_constructed_network_load_without_its_file(tmp_path, tiny_config):
    network = build_detector(tiny_config, NAMES, seed=1)
    save_detector(network, tmp_path / 'tiny.safetensors')
    loaded = load_detector(tmp_path / 'tiny.safetensors')
    assert loaded.config == tiny_config and loaded.weights_hash == network.weights_hash
    save_configuration(tiny_config, tmp_path / 'tiny.json')
    assert build_detector(str(tmp_path / 'tiny.json'), NAMES, seed=1).weights_hash == network.weights_hash


def test_a_built_in_configuration_may_be_told_by_its_name(saved, tmp_path):
    file = tmp_path / 'named.safetensors'
    tensors = {name: tensor.half().contiguous() for name, tensor in saved[0].state_dict().items()}
    save_file(tensors, file, metadata={'config': 'compact', 'class_names': json.dumps(NAMES),
                                       'network_hash': saved[0].network_hash})
    assert load_detector(file).weights_hash == saved[0].weights_hash


def test_other_network_is_refused(saved, tmp_path):
    other = tmp_path / 'other.safetensors'
    metadata = {'config': 'compact', 'class_names': json.dumps(NAMES), 'network_hash': 'abc'}
    save_file({'weight': torch.zeros(3)}, other, metadata=metadata)
    with pytest.raises(CheckpointError, match='made for network abc'):
        load_detector(other)
    save_file({'weight': torch.zeros(3)}, other, metadata={**metadata, 'network_hash': saved[0].network_hash})
    with pytest.raises(CheckpointError, match='does not fit'):
        load_detector(other)


@pytest.mark.parametrize('names', ['vehicle', '3', '[]', '[1]'])
def test_class_names_that_are_none_are_refused(tmp_path, names):
    file = tmp_path / 'names.safetensors'
    save_file({'weight': torch.zeros(3)}, file, metadata={'config': 'compact', 'class_names': names})
    with pytest.raises(CheckpointError, match='expected a JSON list of names'):
        load_detector(file)


def test_weights_that_are_no_numbers_are_refused(tmp_path):
    file = tmp_path / 'nan.safetensors'
    save_file({'weight': torch.full((3,), float('nan'))}, file,
              metadata={'config': 'compact', 'class_names': json.dumps(NAMES)})
    with pytest.raises(CheckpointError, match='NaN or infinity in weight'):
        load_detector(file)


def test_an_absent_device_is_named_with_its_index(saved):
    absent = f'cuda:{torch.cuda.device_count()}'
    with pytest.raises(DeviceNotFound, match=f"device is '{absent}', but PyTorch .* finds"):
        load_detector(saved[1], device=absent)
    with pytest.raises(ValueError, match='expected cpu, cuda or cuda:INDEX'):
        load_detector(saved[1], device='tpu')


def test_the_network_names_the_device_that_holds_its_weights(saved):
    assert load_detector(saved[1]).device == 'cpu'


@pytest.mark.skipif(not torch.cuda.is_available(), reason='needs a CUDA device')
def test_the_network_names_the_index_of_a_gpu(saved):
    last = f'cuda:{torch.cuda.device_count() - 1}'
    assert load_detector(saved[1], device=last).device == last
    assert read_device_facts(load_detector(saved[1], device='cuda').device) == read_device_facts('cuda:0')


def test_unknown_configuration_is_named():
    with pytest.raises(ValueError, match='expected one of compact, orin, paper'):
        build_detector('huge', NAMES)
