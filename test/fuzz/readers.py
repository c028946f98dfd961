"""What is fuzzed: every reader of files and messages that others may have made, as commands and nodes call it.

A reader takes a file of its name in a folder that `prepare` has made. It reads it, or refuses it with one of `REFUSALS`;
everything else is a finding.
"""

import io
import zlib
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace

import cv2
import numpy as np
from made_up_detector import TINY

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.execution_path import PathSpace
from deadline_perception.core.images.coded_image import stated_size
from deadline_perception.core.images.image_file import load_image
from deadline_perception.core.images.image_message import ACCEPTED_ENCODINGS, to_bgr
from deadline_perception.core.untrusted_file import parse_json
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.segment_store import SegmentStore
from deadline_perception.engines.tensor_file import read_header, read_tensors
from deadline_perception.extras.data.bag import read_bag
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.bdd100k import read_bdd100k, read_bdd100k_tracks
from deadline_perception.extras.data.cityscapes import read_cityscapes
from deadline_perception.extras.data.class_names import read_class_mapping
from deadline_perception.extras.data.coco import read_coco
from deadline_perception.extras.data.image_size import image_size
from deadline_perception.extras.data.kitti import read_kitti
from deadline_perception.extras.data.pascal_voc import read_voc
from deadline_perception.extras.data.recorded_speed import read_speed_trace
from deadline_perception.extras.data.video import read_video
from deadline_perception.extras.data.yolo import read_yolo
from deadline_perception.extras.external_models.exported.exported_file import (
    read_exported,
    with_size,
)
from deadline_perception.extras.external_models.exported.families import recognise
from deadline_perception.extras.external_models.model_set.set_file import SetFile
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.several_networks.task_file import read_tasks
from deadline_perception.extras.state_dict import read_state_dict
from deadline_perception.extras.training.loss_log import _rows as read_losses
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.networks.model_reference import load_weights
from deadline_perception.networks.multi_path.configuration import read_shape
from deadline_perception.networks.weights_file import read_metadata
from deadline_perception.timing.calibration import CalibrationFile
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.recent_times import StartRatio

REFUSALS = (ValueError, OSError, DeadlinePerceptionError)  # as `exit_status` prints in a line
_LARGE_PX = 2**16  # of an image; those up to `MOST_PX` take a second each, so one in 256 is decoded
_ALPHA, _ETA = 0.01, 0.05


@dataclass(frozen=True)
class Reader:
    """One kind of file.

    Attributes:
        name: what the file is called in its folder; formats are told apart by endings.
        read: takes the file.
        form: how its bytes are structured, for the mutations: `json`, `tensors`, `mcap`, `sqlite`, or empty.
        prepare: writes what else lies in the folder.
        share: of the time, against the others'.
    """

    name: str
    read: Callable[[Path], object]
    form: str = ''
    prepare: Callable[[Path], None] = lambda folder: None
    share: int = 1

    def prepared(self, folder: Path) -> Path:
        """The file of its name in that folder, which is made ready for it."""
        self.prepare(folder)
        file = folder / self.name
        file.parent.mkdir(parents=True, exist_ok=True)
        return file


def _read_bag(file: Path) -> None:
    with closing(BagFile(file)) as bag:
        for _, kind, _, raw in bag.messages({topic.name for topic in bag.topics}):
            bag.parse(raw, kind)
            with suppress(BagError):
                bag.stamp_ns(raw)


def _read_drive(file: Path) -> None:
    for frame in read_bag(file).frames:
        frame.load_bgr()


def _read_message(file: Path) -> None:
    """The first byte says whether the others are a compressed image or a raw one with its layout before the pixels."""
    content = file.read_bytes()
    kind, content = content[:1], content[1:]
    if kind == b'c':
        if not _is_skipped(content):
            to_bgr(SimpleNamespace(format='jpeg', data=content))
        return
    head, data = content[:16].ljust(16, b'\0'), content[16:]
    height, width, step = np.frombuffer(head[:12], '<u4').tolist()
    named = head[12] % (len(ACCEPTED_ENCODINGS) + 1)
    encoding = (*ACCEPTED_ENCODINGS, data[:20].decode('utf-8', 'surrogateescape'))[named]
    layout = {'height': height, 'width': width, 'step': step, 'is_bigendian': head[13] % 2}
    to_bgr(SimpleNamespace(encoding=encoding, data=data, **layout))


def _read_image(file: Path) -> None:
    if _is_skipped(file.read_bytes()):
        return
    image_size(file)
    load_image(file, upright=True)


def _is_skipped(content: bytes) -> bool:
    size = stated_size(io.BytesIO(content))
    return size is not None and size[0] * size[1] > _LARGE_PX and zlib.crc32(content) % 256 > 0


def _read_video(file: Path) -> None:
    for frame in read_video(file).frames[:5]:
        frame.load_bgr()


def _read_exported(file: Path) -> None:
    exported = read_exported(file)
    size = tuple(side or 64 for side in exported.size)
    if max(size) <= 512:
        count = len(exported.stated.class_names) or None
        recognise(with_size(exported, size, file), count, size, '')


def _read_quality(file: Path) -> None:
    PathQuality.load(file, _tiny_space())


@lru_cache(maxsize=1)
def _tiny_space() -> PathSpace:
    return build_detector(TINY, ('car', 'bike')).path_space


def _read_calibration(file: Path) -> None:
    state = CalibrationFile(file, {'profile': 'a'}).load(alpha=_ALPHA, eta=_ETA)
    PartBound.from_state(state, StartRatio(0.0, 0.1))


def _read_segments(file: Path) -> None:
    store = SegmentStore.load(file.parent, {})
    store.check()
    for key in store.segments:
        store.mapped(key)


def _read_weights(file: Path) -> None:
    """The header and the tensors of each; networks, which take a tenth of a second to build, of some alone."""
    header = read_header(file)
    read_tensors(file, header)
    metadata, _ = read_metadata(file)
    if zlib.crc32(header.raw) % 32 == 0:
        load_weights(file)
    read_shape(parse_json(metadata['config']))


def _picture(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    cv2.imwrite(str(file), np.full((20, 30, 3), 80, np.uint8))


def _beside_labels(*images: str) -> Callable[[Path], None]:
    return lambda folder: [_picture(folder / image) for image in images]


def _up(levels: int, read: Callable[[Path], object]) -> Callable[[Path], object]:
    """The reader of the folder so many levels above the file."""
    return lambda file: read(file.parents[levels - 1])


def _yolo(folder: Path) -> None:
    _picture(folder / 'images' / 'a.png')
    (folder / 'data.yaml').write_text('names: [car, bike]\nval: images\n')


def _bag_folder(folder: Path) -> None:
    from fuzz.seeds import small_mcap

    (folder / 'part.mcap').write_bytes(small_mcap('zstd'))


def _weights_of_ir(folder: Path) -> None:
    from fuzz.seeds import openvino_ir

    (folder / 'net.bin').write_bytes(openvino_ir()[1])


def _compiled_segment(folder: Path) -> None:
    from fuzz.seeds import COMPILED

    place = folder / 'deadline_perception' / 'engine' / 'net'
    place.mkdir(parents=True)
    (place / 'a.blob').write_bytes(COMPILED)


READERS = {
    'bag_mcap': Reader('bag.mcap', _read_bag, 'mcap', share=2),
    'bag_db3': Reader('bag.db3', _read_bag, 'sqlite', share=2),
    'bag_folder': Reader('metadata.yaml', _up(1, _read_bag), 'json', _bag_folder),
    'drive': Reader('drive.mcap', _read_drive, 'mcap'),
    'recording': Reader('run.mcap', read_recording, 'mcap'),
    'image_message': Reader('message', _read_message, share=4),
    'image_file': Reader('image.png', _read_image, share=3),
    'video': Reader('video.avi', _read_video, share=2),
    'onnx': Reader('net.onnx', _read_exported, share=2),
    'openvino_ir': Reader('net.xml', _read_exported, prepare=_weights_of_ir),
    'tflite': Reader('net.tflite', _read_exported),
    'model_set': Reader('set.yaml', SetFile.load, 'json'),
    'tasks': Reader('tasks.yaml', read_tasks, 'json'),
    'mapping': Reader('mapping.yaml', read_class_mapping, 'json'),
    'weights': Reader('net.safetensors', _read_weights, 'tensors', share=2),
    'state_dict': Reader('net.pth', read_state_dict),
    'profile': Reader('profile.json', LatencyProfile.load, 'json', share=2),
    'quality': Reader('quality.json', _read_quality, 'json'),
    'calibration': Reader('calibration.json', _read_calibration, 'json', share=3),
    'segments': Reader(
        'deadline_perception/engine/net/segments.json', _read_segments, 'json', _compiled_segment
    ),
    'coco': Reader('coco.json', read_coco, 'json', _beside_labels('a.png', 'b.png'), share=2),
    'bdd100k': Reader(
        'labels/det_20/det_val.json',
        _up(3, read_bdd100k),
        'json',
        _beside_labels('images/100k/val/a.jpg', 'images/100k/val/b.jpg'),
        share=2,
    ),
    'bdd100k_tracks': Reader(
        'labels/box_track_20/val/v.json',
        _up(4, read_bdd100k_tracks),
        'json',
        _beside_labels('images/track/val/v/v-0000001.jpg', 'images/track/val/v/v-0000002.jpg'),
    ),
    'cityscapes': Reader(
        'gtFine/val/x/x_000000_000019_gtFine_polygons.json',
        _up(4, read_cityscapes),
        'json',
        _beside_labels('leftImg8bit/val/x/x_000000_000019_leftImg8bit.png'),
    ),
    'kitti': Reader('label_2/a.txt', _up(2, read_kitti), prepare=_beside_labels('image_2/a.png')),
    'yolo': Reader(
        'labels/a.txt', lambda file: read_yolo(file.parents[1] / 'data.yaml'), prepare=_yolo
    ),
    'yolo_names': Reader('data.yaml', read_yolo, 'json', _beside_labels('images/a.png')),
    'pascal_voc': Reader('a.xml', _up(1, read_voc), prepare=_beside_labels('a.png')),
    'speed_csv': Reader('trace.csv', read_speed_trace, share=2),
    'speed_json': Reader('trace.json', read_speed_trace, 'json', share=2),
    'loss_log': Reader('log.jsonl', read_losses),
}
