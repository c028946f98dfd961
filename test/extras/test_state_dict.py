"""Weights of others are found, or refused in one line; nothing that they hold runs."""

import io
import zipfile

import pytest
import torch

from deadline_perception.core.untrusted_file import FileRefused
from deadline_perception.extras.state_dict import read_state_dict
from deadline_perception.extras.weights_writer import write_tensors

WEIGHTS = {'layer.weight': torch.arange(6.0).reshape(2, 3), 'layer.count': torch.tensor(3)}


class Code:
    def __reduce__(self):
        return (print, ('executed',))


@pytest.mark.parametrize('where', [None, 'model', 'state_dict', 'model_state_dict'])
def test_weights_are_found_within_a_checkpoint(tmp_path, where):
    torch.save(WEIGHTS if where is None else {'epoch': 3, where: WEIGHTS}, tmp_path / 'weights.pth')
    found = read_state_dict(tmp_path / 'weights.pth')
    assert found.keys() == WEIGHTS.keys()
    assert torch.equal(found['layer.weight'], WEIGHTS['layer.weight'])


def pickled(content) -> bytes:
    stream = io.BytesIO()
    torch.save(content, stream)
    return stream.getvalue()


def compressed(content: bytes) -> bytes:
    stream = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(content)) as old,
        zipfile.ZipFile(stream, 'w', zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    return stream.getvalue()


@pytest.mark.parametrize(
    'content, words',
    [
        (pickled(Code()), 'more than tensors, such as .*print'),
        (pickled(torch.nn.Linear(2, 2)), 'such as torch.nn.modules'),
        (pickled({}), 'it holds dict'),
        (pickled({3: torch.ones(1)}), 'under 3'),
        (pickled({'a': 3}), "holds int under 'a'"),
        (pickled({'a': torch.ones(1).expand(10**6, 10**5)}), 'states more values'),
        (pickled({'\x1b[31m': torch.ones(2).to_sparse()}), 'sparse, quantised'),
        (pickled({'n' * 301: torch.ones(1)}), 'expected weights'),
        (
            pickled(dict.fromkeys(map(str, range(2000)), torch.ones(100_000, dtype=torch.int8))),
            'more values than it holds',
        ),
        (compressed(pickled(WEIGHTS)), 'compressed or overlap'),
        (pickled(WEIGHTS)[:-50], 'cut off'),
        (b'', 'cut off'),
        (b'no weights', 'more than tensors|cut off'),
    ],
)
def test_files_of_torch_that_hold_anything_else_are_refused(tmp_path, capfd, content, words):
    (tmp_path / 'w.pth').write_bytes(content)
    with pytest.raises(FileRefused, match=words) as refused:
        read_state_dict(tmp_path / 'w.pth')
    told = str(refused.value)
    assert told.isprintable() and len(told) < 400 and 'weights_only' not in told
    assert 'executed' not in capfd.readouterr().out


def test_a_version_of_torch_that_may_run_code_reads_no_pickles(tmp_path, monkeypatch):
    (tmp_path / 'w.pth').write_bytes(pickled(WEIGHTS))
    write_tensors(tmp_path / 'w.safetensors', WEIGHTS, {})
    monkeypatch.setattr(torch, '__version__', '2.9.1+cpu')
    words = 'PyTorch 2.9.1.cpu does not read it safely .*, expected 2.10 or later'
    with pytest.raises(FileRefused, match=words):
        read_state_dict(tmp_path / 'w.pth')
    assert read_state_dict(tmp_path / 'w.safetensors').keys() == WEIGHTS.keys()
