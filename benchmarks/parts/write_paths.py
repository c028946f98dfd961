"""Every way in which the package writes files, each as an act in a folder that gives the same files whenever it is done."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import zstandard
from rosbags.rosbag2 import StoragePlugin, Writer

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import read_device_facts
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.segment_store import Form, SegmentStore
from deadline_perception.extras.configuration_file import save_configuration
from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.data.records import Frame, Sequence
from deadline_perception.extras.data.shown_source import ShownImage, ShownSource
from deadline_perception.extras.data.video import read_video
from deadline_perception.extras.external_models.model_set.onnx_runtime import OnnxSession
from deadline_perception.extras.external_models.model_set.set_file import ModelSpec, SetFile
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.preparation.store_lock import store_lock
from deadline_perception.extras.preparation.store_writer import StoreWriter
from deadline_perception.extras.report.found_objects import FoundObjects
from deadline_perception.extras.training.label_file import write_labels
from deadline_perception.extras.training.label_log import LabelLog, SeenImage
from deadline_perception.extras.training.labelling import Judgement, LabelJob, _write_image
from deadline_perception.extras.training.loss_log import draw_curves, open_log
from deadline_perception.extras.training.score_thresholds import ScoreThreshold
from deadline_perception.extras.training.training_plan import TrainingPlan
from deadline_perception.extras.training.training_state import ResumableTraining
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.timing.calibration import BoundCalibrator, CalibrationFile
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles
from deadline_perception.tools.demo import _write_tasks
from deadline_perception.tools.detect import _Pictures
from parts.hostile_detectors import odd_detectors

_CLASSES = ('car', 'bike')
_IMAGE = np.arange(24 * 32 * 3, dtype=np.uint8).reshape(24, 32, 3)


@dataclass(frozen=True)
class WritePath:
    """One of them.

    Attributes:
        name: what is written.
        act: writes into the folder.
        prepare: puts there what lay there before.
        steps: endings of files that are written in several steps, of which `reads` tells whether they are whole.
        reads: raises where what is there cannot be read.
        is_needed: else it is a cache, and nobody is told where it could not be written.
    """

    name: str
    act: Callable[[Path], object]
    prepare: Callable[[Path], object] = lambda folder: None
    steps: tuple[str, ...] = ()
    reads: Callable[[Path], object] = lambda folder: None
    is_needed: bool = True


def write_paths() -> list[WritePath]:
    """All, ten of different kinds first."""
    return [
        WritePath('a file', _text('new'), _text('old')),
        WritePath('a file in a new folder', lambda folder: _text('new')(folder / 'a' / 'b')),
        WritePath('a file that a killed writer left a part of', _text('new'), _leftover),
        WritePath('calibration', _calibration(2.0), _calibration(1.5)),
        WritePath('set of models', _model_set('new'), _model_set('old')),
        WritePath('label log', _label_log, steps=('.jsonl',), reads=_read_label_log),
        WritePath('copies of labelled images', _label_copy(80), _label_copy(10)),
        WritePath('annotated image', _picture, _old_picture, reads=_read_video),
        WritePath('annotated video', _video, reads=_read_video),
        WritePath('bag of one file', _bag('b.mcap')),
        WritePath('latency profile', _profile('2025-02-02'), _profile('2025-01-01')),
        WritePath('path qualities', _qualities(0.4), _qualities(0.3)),
        WritePath('configuration of a network', _configuration),
        WritePath('weights', _weights(1), _weights(0)),
        WritePath('training state', _training(2), _training(1)),
        WritePath('loss log', _losses(3), _losses(2), ('.jsonl',), _read_losses),
        WritePath('curves of losses', _curves, _losses(2), reads=_read_curves),
        WritePath('labels of images', _labels, _label_log),
        WritePath('prepared segments', _segments, steps=('segments.json',), reads=_read_segments),
        WritePath('prepared segments of another device', _segments_anew, _segments),
        WritePath('lock of prepared segments', _lock),
        WritePath('forms that ONNX Runtime optimised', _onnx_runtime, is_needed=False),
        WritePath('found objects', _found),
        WritePath('bag folder', _bag('b')),
        WritePath('bag in the place of another', _bag('b.mcap', overwrite=True), _bag('b.mcap')),
        WritePath('recording of a bag', _recording, steps=('.mcap',), reads=_read_recording),
        WritePath('parameters of the nodes', _parameters),
        WritePath('bag that is decompressed to be read', _decompressed, _compressed_bag),
        WritePath('bag that is completed to be read', _salvaged, _cut_database),
    ]


def _text(words: str) -> Callable[[Path], None]:
    return lambda folder: replace_file(folder / 'file.txt', words * 5000)


def _leftover(folder: Path) -> None:
    _text('old')(folder)
    (folder / '.file.txt.0a0b0c0d.partial').write_text('o')


def _calibration(factor: float) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        state = BoundCalibrator(0.01, 0.05, 1.0, np.log(factor)).state()
        CalibrationFile(folder / 'calibration.json', {'profile': 'a'}).save(state)

    return act


@lru_cache(maxsize=4)
def _network(seed: int):
    small = replace(
        COMPACT,
        name='small',
        stem_channels=16,
        stage_channels=(16, 16, 16, 32),
        norm_group_channels=4,
        pyramid_channels=16,
    )
    return build_detector(small, _CLASSES, seed=seed)


def _profile(date: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        segments = {'a': Quantiles.from_samples([3.0] * 5)}
        sizes = {'input_size': (64, 64), 'image_size': (48, 64)}
        facts = {'facts': read_device_facts(), 'config_name': 'small', 'network_hash': 'ab'}
        rest = {'date': f'{date}T00:00:00+00:00', 'load_before': 0.0, 'paths': {}}
        LatencyProfile(segments=segments, **facts, **sizes, **rest).save(folder / 'profile.json')

    return act


def _qualities(value: float) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        space = _network(0).path_space
        known = {space.smallest: value, space.largest: value}
        PathQuality(known, predicts=False).save(folder / 'quality.json')

    return act


def _configuration(folder: Path) -> None:
    save_configuration(COMPACT, folder / 'own.json')


def _model_set(name: str) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        model = ModelSpec(name, 'onnx', folder / 'a.onnx', ('car',), input_size=(64, 64))
        SetFile((model,), ('car',)).save(folder / 'set.yaml')

    return act


def _weights(seed: int) -> Callable[[Path], None]:
    return lambda folder: save_detector(_network(seed), folder / 'net.safetensors')


def _training(step: int) -> Callable[[Path], None]:
    class Still(ResumableTraining):
        _facts = {}

    def act(folder: Path) -> None:
        training = Still(_network(step), TrainingPlan(steps=5))
        training.step = step
        training.save(folder / 'state.safetensors')

    return act


def _losses(steps: int) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        with open_log(folder / 'losses.jsonl', steps - 1) as log:
            for step in range(1, steps + 1):
                log.add(step, {'loss': 1.0 / step})

    return act


def _read_losses(folder: Path) -> None:
    with open_log(folder / 'losses.jsonl', 9):
        pass


def _curves(folder: Path) -> None:
    draw_curves(folder / 'losses.jsonl', folder / 'losses.png')


def _read_curves(folder: Path) -> None:
    if (folder / 'losses.png').exists():
        load_image(folder / 'losses.png')


def _label_log(folder: Path) -> None:
    found = Detections(np.array([[1.0, 2.0, 9.0, 9.0]]), np.array([0.9]), np.array([0]))
    with closing(LabelLog(folder / 'labels.jsonl', ['a'])) as log:
        for _ in range(log.count, 2):
            log.add(SeenImage((32, 24), (found,)))


def _read_label_log(folder: Path) -> None:
    with closing(LabelLog(folder / 'labels.jsonl', ['a'])) as log:
        list(log)


def _labels(folder: Path) -> None:
    jobs = [
        LabelJob(Frame(name, 1, lambda: _IMAGE), frozenset(), name) for name in ('a.jpg', 'b.jpg')
    ]
    threshold = ScoreThreshold(0.5, 0.3)
    judgement = Judgement(np.ones((1, 1)), {0: threshold})
    with closing(LabelLog(folder / 'labels.jsonl', ['a'])) as log:
        write_labels(log, jobs, judgement, ('car',), folder / 'labels.json')


def _label_copy(shade: int) -> Callable[[Path], None]:
    return lambda folder: _write_image(folder / 'images' / 'a.jpg', np.full_like(_IMAGE, shade))


def _segments(folder: Path) -> None:
    store = StoreWriter.resume(folder / 'store', {'device': 'a'})
    store.begin('stem', Form.INT8)
    times = {'error_db': 30.0, 'time_ms': 1.0, 'eager_ms': 2.0}
    store.add('stem', Form.INT8, compiled=b'code' * 1000, **times)
    store.add('head', Form.EAGER, reason='no faster', **times)
    store.finish(['stem', 'head'])


def _read_segments(folder: Path) -> None:
    if (folder / 'store' / 'segments.json').exists():
        SegmentStore.load(folder / 'store', {'device': 'a'})


def _segments_anew(folder: Path) -> None:
    StoreWriter.resume(folder / 'store', {'device': 'b'})


def _lock(folder: Path) -> None:
    with store_lock(folder / 'store'):
        replace_file(folder / 'store' / 'file', 'content')


@lru_cache(maxsize=1)
def _exported() -> Path:
    place = Path(tempfile.mkdtemp())
    (place / 'net.onnx').write_bytes(next(iter(odd_detectors()))[1])
    return place / 'net.onnx'


def _onnx_runtime(folder: Path) -> None:
    OnnxSession(_exported(), cache=folder / 'cache')


def _found(folder: Path) -> None:
    FoundObjects(_CLASSES).write(folder / 'detections.json', folder / 'detections.csv')


def _old_picture(folder: Path) -> None:
    (folder / 'a.jpg').write_bytes(b'old')


def _picture(folder: Path) -> None:
    with _Pictures(folder, ShownSource('a', 1, 10.0, _drive(1))) as pictures:
        pictures.add(ShownImage('a.png', 0, _IMAGE), _IMAGE)


def _video(folder: Path) -> None:
    with _Pictures(folder, ShownSource('a', None, 10.0)) as pictures:
        for _ in range(3):
            pictures.add(ShownImage('a', 1, _IMAGE), _IMAGE)


def _read_video(folder: Path) -> None:
    for file in folder.glob('[!.]*.mp4'):
        for frame in read_video(file).frames:
            frame.load_bgr()


@lru_cache(maxsize=2)
def _drive(frames: int):
    return Sequence(
        'own', (), tuple(Frame(f'{n}', (n + 1) * 10**9, lambda: _IMAGE) for n in range(frames))
    )


def _bag(name: str, *, overwrite: bool = False) -> Callable[[Path], object]:
    return lambda folder: write_bag(_drive(2 + overwrite), folder / name, overwrite=overwrite)


def _recording(folder: Path) -> None:
    from deadline_perception.nodes.bag_writer import BagWriter

    store = message_types()
    raw = bytes(store.serialize_cdr(store.types['std_msgs/msg/String']('a'), 'std_msgs/msg/String'))
    writer = BagWriter(folder / 'own.mcap', store)
    writer.add_topic('/a', 'std_msgs/msg/String')
    for number in range(3):
        writer.put('/a', number, raw)
    writer.close()


def _read_recording(folder: Path) -> None:
    _read_bag(folder / 'own.mcap')


def _read_bag(file: Path) -> None:
    try:
        bag = BagFile(file)
    except (BagError, FileNotFoundError):  # it may have no message yet
        return
    with closing(bag):
        list(bag.messages({topic.name for topic in bag.topics}))


def _parameters(folder: Path) -> None:
    _write_tasks(Namespace(out=folder, networks=2, device='cpu'), Path('a'), Path('b'))


def _compressed_bag(folder: Path) -> None:
    _bag('b.mcap')(folder)
    content = (folder / 'b.mcap').read_bytes()
    (folder / 'b.mcap.zstd').write_bytes(zstandard.ZstdCompressor().compress(content))
    (folder / 'b.mcap').unlink()
    (folder / 'tmp').mkdir()


def _decompressed(folder: Path) -> None:
    _read_with_temporary(folder, folder / 'b.mcap.zstd')


def _cut_database(folder: Path) -> None:
    store = message_types()
    kind = 'std_msgs/msg/String'
    with Writer(folder / 'b', version=8, storage_plugin=StoragePlugin.SQLITE3) as writer:
        connection = writer.add_connection('/a', kind, typestore=store)
        for number in range(100):
            raw = store.serialize_cdr(store.types[kind]('a' * 100), kind)
            writer.write(connection, number, raw)
    (folder / 'b' / 'b.db3').rename(folder / 'cut.db3')
    (folder / 'cut.db3-journal').write_bytes(bytes(512))
    (folder / 'tmp').mkdir()


def _salvaged(folder: Path) -> None:
    _read_with_temporary(folder, folder / 'cut.db3')


def _read_with_temporary(folder: Path, file: Path) -> None:
    tempfile.tempdir = str(folder / 'tmp')
    try:
        with closing(BagFile(file)) as bag:
            list(bag.messages({topic.name for topic in bag.topics}))
    finally:
        tempfile.tempdir = None
