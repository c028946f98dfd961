"""ONNX Runtime: providers tried in turn, and what they compiled kept as it was written."""

import numpy as np
import pytest
import torch

pytest.importorskip('onnxruntime')

from exported_files import exported  # noqa: E402
from full_disk import full_disk  # noqa: E402
from made_up_models import CLASSES, SIZE, SmallYolo, export_onnx, small_yolo  # noqa: E402
from plain_images import noise  # noqa: E402

from deadline_perception.extras.external_models.exported.model_error import ModelError  # noqa: E402
from deadline_perception.extras.external_models.exported.pixels import InputForm  # noqa: E402
from deadline_perception.extras.external_models.model_set.onnx_detector import OnnxDetector  # noqa: E402
from deadline_perception.extras.external_models.model_set.onnx_runtime import (  # noqa: E402
    CPU,
    CUDA,
    TENSOR_RT,
    OnnxRuntimeError,
    OnnxSession,
    SessionOptions,
    feed_of,
    files_of_values,
)
from deadline_perception.extras.external_models.model_set.onnx_runtime_detector import (  # noqa: E402
    OnnxRuntimeDetector,
)

IMAGE = noise(*SIZE)
needs_no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason='a GPU is there')


@pytest.fixture(scope='module')
def yolo(tmp_path_factory):
    return small_yolo(tmp_path_factory.mktemp('onnx'))


@pytest.mark.parametrize(
    'kind, channels, mean, resize',
    [
        (torch.float32, 'rgb', 0.0, 'letterbox'),
        (torch.float32, 'bgr', 10.0, 'stretch'),
        (torch.uint8, 'rgb', 0.0, 'stretch'),
        (torch.uint8, 'bgr', 0.0, 'stretch'),
    ],
)
def test_gives_what_the_module_gives(tmp_path, kind, channels, mean, resize):
    form = InputForm(channels=channels, mean=(mean, 2 * mean, 3 * mean), resize=resize)
    torch.manual_seed(1)
    module = SmallYolo().eval()
    whole = OfBytes(module) if kind is torch.uint8 else module
    file = export_onnx(whole, tmp_path / 'yolo.onnx', kind=kind)
    detector = OnnxRuntimeDetector(file, CLASSES, form=form, cache=tmp_path)
    pixels = IMAGE if channels == 'bgr' else IMAGE[..., ::-1].copy()
    if kind is torch.float32:
        pixels = (pixels - np.float32(form.mean)) / np.float32(form.deviation)
    with torch.no_grad():
        expected = whole(torch.from_numpy(pixels).permute(2, 0, 1)[None]).numpy()
    for _ in range(2):
        (found,) = detector.run_layers(detector.prepare(IMAGE))
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3)
    assert len(detector.detect(IMAGE)) > 5
    assert detector.engine.identity.endswith(f'{CPU} float32') and detector.engine.notice == ''


class OfBytes(torch.nn.Module):
    """A network that takes bytes."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, images):
        return self.module(images.float())


def test_files_that_hold_values_beside_a_network_belong_to_it(tmp_path):
    hashes = set()
    for value in (1, 2):
        ir = exported(tmp_path / 'net.xml', {'boxes': np.full((1, 2, 6), value)})
        hashes.add(OnnxDetector(ir, CLASSES, stated='detections px').weights_hash)
    assert len(hashes) == 2 and files_of_values(ir) == [tmp_path / 'net.bin']
    plain, divided = tmp_path / 'plain.onnx', tmp_path / 'divided.onnx'
    plain.write_bytes(b'no other file')
    divided.write_bytes(b'..j\x12\n\x08location\x12\x06w.datajx..')
    assert files_of_values(plain) == files_of_values(divided) == []
    (tmp_path / 'w.data').write_bytes(b'1')
    assert files_of_values(divided) == [tmp_path / 'w.data']


def test_a_detector_says_which_provider_runs_it_after_one_has_failed(yolo, tmp_path):
    detector = OnnxRuntimeDetector(yolo, CLASSES, cache=tmp_path)
    session = detector._session
    session.provider, session.refused = CUDA, {}  # as on a GPU
    detector.engine = type(detector.engine)(session.identity, {}, '')
    assert CUDA in detector.engine.identity

    class Gone:
        get_inputs = session._session.get_inputs

        def run(self, *_):
            raise RuntimeError('CUDA failure 719')

    session._session, session._left = Gone(), [CPU]
    detector.run_layers(detector.prepare(IMAGE))
    assert CPU in detector.engine.identity and 'CUDA failure 719' in detector.engine.notice


@needs_no_gpu
def test_providers_that_cannot_be_had_are_passed_over_and_named(yolo, tmp_path):
    session = OnnxSession(yolo, SessionOptions(providers=(TENSOR_RT, CUDA, CPU)), tmp_path)
    assert session.provider == CPU and list(session.refused) == [TENSOR_RT, CUDA]
    assert 'is not run by TensorrtExecutionProvider: ' in session.notice
    assert len(session.run({'images': np.zeros((1, 3, *SIZE), np.float32)})) == 1


def test_a_provider_that_fails_while_it_runs_makes_place_for_the_next(yolo):
    """A wrong shape fails on each, the last of which is then told."""
    session = OnnxSession(yolo, SessionOptions(providers=(CPU, CPU)))
    words = 'cannot be run by ONNX Runtime: CPUExecutionProvider: '
    with pytest.raises(OnnxRuntimeError, match=words):
        session.run({'images': np.zeros((1, 3, 8, 8), np.float32)})
    assert list(session.refused) == [CPU]


def test_what_was_compiled_is_used_again_only_as_it_was_written(yolo, tmp_path):
    def run():
        """Runs once more; returns the only compiled file."""
        found = OnnxSession(yolo, cache=tmp_path).run(feed)[0]
        assert found == pytest.approx(expected, abs=1e-4)
        (compiled,) = tmp_path.rglob('*.onnx')
        return compiled

    feed = {'images': np.random.default_rng(1).random((1, 3, *SIZE), np.float32)}
    expected = OnnxSession(yolo, cache=tmp_path).run(feed)[0]
    (compiled,) = tmp_path.rglob('*.onnx')
    written = compiled.stat().st_mtime_ns
    assert run().stat().st_mtime_ns == written
    compiled.write_bytes(b'somebody else was here')
    assert run().stat().st_size > 100
    (compiled.parent / 'files.json').write_text('[')
    run()


def test_a_cache_that_is_full_or_no_folder_or_open_to_others_is_none(yolo, tmp_path):
    with full_disk(0):
        session = OnnxSession(yolo, cache=tmp_path)
    assert session.provider == CPU and session.notice == ''
    assert OnnxSession(yolo, cache=tmp_path).notice == ''
    (tmp_path / 'file').touch()
    assert OnnxSession(yolo, cache=tmp_path / 'file').provider == CPU
    (tmp_path / 'open').mkdir()
    (tmp_path / 'open').chmod(0o777)
    assert OnnxSession(yolo, cache=tmp_path / 'open').provider == CPU
    assert not list((tmp_path / 'open').iterdir())


def test_what_cannot_be_is_refused(yolo, tmp_path):
    for file, options, said in (
        (tmp_path / 'model.xml', {}, 'no ONNX file'),
        (tmp_path / 'none.onnx', {}, 'none.onnx does not exist'),
        (yolo, {'precision': 'int3'}, "precision 'int3'"),
    ):
        with pytest.raises(ModelError, match=said):
            OnnxRuntimeDetector(file, CLASSES, **options)
    with pytest.raises(OnnxRuntimeError, match='input is of type tensor'):
        feed_of((1, 3, 4, 6), 'tensor(string)', np.zeros((4, 6, 3)))
