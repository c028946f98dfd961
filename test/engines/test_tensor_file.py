"""Tensors on disk: what is there is read or refused in one line; what is written is whole."""

import json

import pytest
import torch

from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.engines.tensor_file import read_header, read_tensors
from deadline_perception.extras.weights_writer import write_tensors

WEIGHTS = {'layer.weight': torch.arange(6.0).reshape(2, 3), 'layer.count': torch.tensor(3)}


def test_a_file_that_is_replaced_between_its_header_and_its_tensors_is_refused(tmp_path):
    file = tmp_path / 'weights.safetensors'
    write_tensors(file, WEIGHTS, {})
    header = read_header(file)
    write_tensors(file, {**WEIGHTS, 'layer.count': torch.zeros(1)}, {})
    with pytest.raises(FileRefused, match='was replaced while it was read'):
        read_tensors(file, header)


def tensor(dtype, count):
    """A header of one tensor."""
    return {'a': {'dtype': dtype, 'shape': [count], 'data_offsets': [0, 4 * count]}}


def described(header, rest=b'') -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, 'little') + text + rest


@pytest.mark.parametrize(
    ('content', 'words'),
    [
        (b'', 'no JSON'),
        ((2**60).to_bytes(8, 'little'), 'its header has 1152921504606846976 bytes'),
        ((2**20).to_bytes(8, 'little') + b'{', 'ends within its header'),
        (described({'__metadata__': {'a': 1}}), r"metadata\['a'\] is 1, expected str"),
        (described(b'[' * 100_000), 'nested too deeply'),
        (described({'a': {'dtype': 'F32', 'shape': [-1]}}), r'shape\[0\] is -1, expected int >= 0'),
        (described({'a': {'dtype': 'F32', 'shape': [2**62]}}), 'expected int <= 1099511627775'),
        (described(b'{"a": 1, "a": 2}'), 'twice'),
        (described(tensor('F32', 2**20)), '.'),
        (described(tensor('F99', 1), bytes(4)), '.'),
        (described(tensor('F32', 1), bytes(400)), 'expected at most'),
    ],
)
def test_files_that_are_no_safetensors_are_refused(tmp_path, content, words):
    (tmp_path / 'w.safetensors').write_bytes(content)
    with pytest.raises(FileRefused, match=words) as refused:
        read_tensors(tmp_path / 'w.safetensors')
    assert str(refused.value).isprintable() and len(str(refused.value)) < 400
