"""Whole small files of every kind that a reader takes, which fuzzing begins with; the same ones in every run."""

import hashlib
import io
import json
import sqlite3
import struct
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import torch
import yaml
from made_up_detector import TINY
from made_up_network import made_up_profile
from mcap.writer import CompressionType, IndexType, Writer
from plain_images import grey
from recorded_run import write_drive
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as BagWriter
from safetensors.torch import save
from timed_videos import write_video

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.extras.weights_writer import build_detector
from deadline_perception.timing.calibration import FORMAT as CALIBRATION_FORMAT
from deadline_perception.timing.calibration import BoundCalibrator
from deadline_perception.timing.part_bound import PartBound
from deadline_perception.timing.recent_times import RecentTimes, StartRatio

HERE = Path(__file__).parent
_HEADER = 'std_msgs/Header header\nuint8[] data\n' + '=' * 80 + '\n'
_DEFINITION = (
    f'{_HEADER}MSG: std_msgs/Header\nbuiltin_interfaces/Time stamp\nstring frame_id\n{"=" * 80}\n'
    'MSG: builtin_interfaces/Time\nint32 sec\nuint32 nanosec\n'
)
_STRING = 'std_msgs/msg/String'
_CLASSES = ('car', 'bike')
COMPILED = b'a segment'


def seeds(name: str) -> list[bytes]:
    """The whole files for one reader; none where it has no own."""
    found = _SEEDS.get(name, list)()
    return [content if isinstance(content, bytes) else content.encode() for content in found]


def small_mcap(compression: str = '', **options: object) -> bytes:
    """Four messages on two topics."""
    stream = io.BytesIO()
    kinds = {'': CompressionType.NONE, 'zstd': CompressionType.ZSTD, 'lz4': CompressionType.LZ4}
    writer = Writer(stream, chunk_size=120, compression=kinds[compression], **options)
    writer.start('ros2', 'seed')
    for topic, kind, text, raws in (
        ('/w', _STRING, 'string data\n', [_word('a'), _word('bc')]),
        ('/d', 'own/msg/Data', _DEFINITION, [_data(1), _data(2)]),
    ):
        schema = writer.register_schema(kind, 'ros2msg', text.encode())
        channel = writer.register_channel(
            topic, 'cdr', schema, {'offered_qos_profiles': '- durability: 1\n'}
        )
        for number, raw in enumerate(raws):
            writer.add_message(channel, number * 1000, raw, number * 1000)
    writer.finish()
    return stream.getvalue()


def _word(text: str) -> bytes:
    store = message_types()
    return bytes(store.serialize_cdr(store.types[_STRING](text), _STRING))


def _data(second: int) -> bytes:
    return b'\0\1\0\0' + struct.pack('<iII4sI4s', second, 0, 4, b'abc\0', 4, b'data')


def _mcaps() -> list[bytes]:
    whole = small_mcap()
    further = {'index_types': IndexType.CHUNK}, {'use_chunking': False}
    others = [small_mcap('zstd'), small_mcap('lz4'), *(small_mcap(**one) for one in further)]
    return [whole, *others, whole[: len(whole) // 2]]


def _written(write: Callable[[Path], object], pattern: str) -> bytes:
    """The file of that pattern that is written into an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        (file,) = Path(folder).glob(pattern)
        return file.read_bytes()


def _write_bag(folder: Path, version: int = 8, storage: StoragePlugin = StoragePlugin.MCAP) -> None:
    with BagWriter(folder / 'part', version=version, storage_plugin=storage) as writer:
        connection = writer.add_connection('/w', _STRING, typestore=message_types())
        for number in range(3):
            writer.write(connection, number, _word('abc'))
    for file in folder.glob('part/*.db3'):
        with closing(sqlite3.connect(file)) as database:
            database.execute('PRAGMA page_size = 512')
            database.execute('VACUUM')


def _databases() -> list[bytes]:
    write = partial(_write_bag, storage=StoragePlugin.SQLITE3)
    return [_written(partial(write, version=version), 'part/*.db3') for version in (8, 9)]


def _metadata() -> list[str]:
    facts = yaml.safe_load(_written(_write_bag, 'part/metadata.yaml'))
    (known,) = facts.values()
    compressed = {**known, 'compression_format': 'zstd', 'compression_mode': 'message'}
    return [json.dumps(dict.fromkeys(facts, one)) for one in (known, compressed)]


def _drives() -> list[bytes]:
    drive = render_drive(seconds=0.6, rate_hz=5.0, seed=2, width=64, height=48)
    return [
        _written(lambda folder: write_bag(drive, folder / 'a.mcap', compressed=compressed), '*')  # noqa: B023
        for compressed in (False, True)
    ]


def _recordings() -> list[bytes]:
    return [_written(lambda folder: write_drive(folder / 'run', frames=2), 'run/*.mcap')]


def _images() -> list[bytes]:
    image = np.arange(20 * 30 * 3, dtype=np.uint8).reshape(20, 30, 3)
    found = [cv2.imencode(kind, image)[1].tobytes() for kind in ('.jpg', '.png', '.bmp', '.webp')]
    progressive = [cv2.IMWRITE_JPEG_PROGRESSIVE, 1]
    found.append(cv2.imencode('.jpg', image, progressive)[1].tobytes())
    orientation = b'Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0'
    exif = b'\xff\xe1' + struct.pack('>H', len(orientation) + 2) + orientation
    found.append(b'\xff\xd8' + exif + found[0][2:])
    deep = (image[..., 0].astype(np.uint16) * 200).copy()
    found.append(cv2.imencode('.png', deep)[1].tobytes())
    return found


def _messages() -> list[bytes]:
    raws = [
        b'r' + struct.pack('<IIIB3x', 2, 4, 4 * channels, place) + bytes(8 * channels)
        for place, channels in ((0, 3), (2, 3), (4, 4), (6, 1), (8, 2), (11, 1), (15, 1))
    ]
    return [b'c' + content for content in _images()] + raws


def _videos() -> list[bytes]:
    images = [grey(16, 32, shade * 40) for shade in range(3)]
    found = (
        _written(lambda folder: write_video(folder / name, images, 10.0, code), '*')  # noqa: B023
        for name, code in (('a.avi', 'MJPG'), ('a.mp4', 'mp4v'), ('a.mkv', 'mp4v'))
    )
    return [content for content in found if content]


def _whole(ending: str) -> list[bytes]:
    """Written once, byte by byte or with flatbuffers. Of ONNX: detectors of five heads, loops of more rounds than anybody
    waits for, and two outputs of one name; of TFLite: a model of one operation, and a detector that ends with one of
    TensorFlow Lite's own, which OpenVINO does not know."""
    return [file.read_bytes() for file in sorted((HERE / 'whole').glob(f'*.{ending}'))]


def openvino_ir() -> tuple[bytes, bytes]:
    """A detector whose output follows the image, as the two files of OpenVINO's."""
    from openvino import Model, PartialShape, Type, save_model
    from openvino import opset13 as ops

    with tempfile.TemporaryDirectory() as folder:
        image = ops.parameter(PartialShape([1, 3, 64, 64]), Type.f32, name='images')
        mean = ops.reshape(ops.reduce_mean(image, np.int64([1, 2, 3])), np.int64([1, 1, 1]), False)
        model = Model([ops.result(ops.broadcast(mean, np.int64([1, 6, 84])).output(0))], [image])
        model.set_rt_info('{0: "car", 1: "bike"}', ['model_info', 'names'])
        file = Path(folder) / 'net.xml'
        save_model(model, file)
        return file.read_bytes(), file.with_suffix('.bin').read_bytes()


def _sets() -> list[str]:
    onnx = {'name': 'a', 'kind': 'onnx', 'file': 'a.onnx', 'classes': ['car', None]}
    onnx |= {'input_size': [64, 64], 'resize': 'letterbox', 'channels': 'bgr'}
    onnx |= {'mean': [0.0, 0.0, 0.0], 'memory_mb': 5.0}
    other = {'name': 'b', 'kind': 'multi-path', 'file': 'b.safetensors', 'kept_paths': ['x']}
    content = {'format': 1, 'classes': ['car'], 'models': [onnx, other]}
    return [json.dumps(content), 'format: 1\nmodels:\n- {name: a, kind: onnx, file: a.onnx}\n']


def _tasks() -> list[str]:
    first = {'model': 'compact', 'periods_ms': [100, 200], 'image_topic': '/a', 'levels': 3}
    crops = {'model': 'signs', 'periods_ms': [100], 'crops_of': 'a', 'weight': 2.0}
    return [json.dumps({'tasks': {'a': first, 'b': crops}}), 'tasks:\n  a: {model: compact}\n']


def _weights() -> list[bytes]:
    """The facts of a whole file beside one small tensor."""
    detector = build_detector(TINY, _CLASSES)
    facts = {'class_names': json.dumps(_CLASSES), 'network_hash': detector.network_hash}
    facts['config'] = detector.config.to_json()
    return [save({'a': torch.zeros(3).half()}, facts), save({'b': torch.ones(2, 2)}, {'x': 'y'})]


def _state_dicts() -> list[bytes]:
    found = []
    for content, zipped in (
        ({'a': torch.zeros(3)}, True),
        ({'model': {'a.b': torch.ones(2, 2)}, 'step': 3}, True),
        ({'a': torch.zeros(3)}, False),
    ):
        stream = io.BytesIO()
        torch.save(content, stream, _use_new_zipfile_serialization=zipped)
        found.append(stream.getvalue())
    return found


def _profiles() -> list[str]:
    profile = made_up_profile(build_detector(TINY, _CLASSES))
    content = json.loads(_written(lambda folder: profile.save(folder / 'tiny.json'), '*'))
    for name in ('segments', 'paths'):
        content[name] = dict(list(content[name].items())[:4])
    return [json.dumps(content)]


def _qualities() -> list[str]:
    space = build_detector(TINY, _CLASSES).path_space
    paths = map(str, (space.smallest, space.largest, list(space)[7]))
    paths = dict.fromkeys(paths, {'ap': 0.3, 'ap_error': 0.01})
    facts = {'weights_hash': 'ab', 'dataset': 'd', 'metric': 'ap', 'version': 1}
    return [json.dumps({**facts, 'paths': paths})]


def _calibrations() -> list[str]:
    bound = PartBound(BoundCalibrator(0.01, 0.05, 0.02), RecentTimes(0.01, StartRatio(0.0, 0.1)))
    state = bound.state()
    return [json.dumps({'format': CALIBRATION_FORMAT, 'origin': {'profile': 'a'}, **state})]


def _segments() -> list[str]:
    from deadline_perception.engines.segment_store import FORMAT

    segment = {'form': '8 bit', 'error_db': 30.0, 'time_ms': 1.0, 'eager_ms': 2.0, 'reason': ''}
    segment |= {'file': 'a.blob', 'sha256': hashlib.sha256(COMPILED).hexdigest()}
    facts = {'format': FORMAT, 'origin': {'network': 'net'}, 'done': ['stem'], 'failed': []}
    return [json.dumps({**facts, 'attempt': '', 'segments': {'stem': segment}})]


def _coco() -> list[str]:
    size = {'width': 30, 'height': 20}
    images = [{'id': at, 'file_name': f'{name}.png', **size} for at, name in enumerate('ab')]
    box = {'id': 1, 'image_id': 0, 'category_id': 1, 'bbox': [1, 2, 3, 4], 'iscrowd': 0}
    categories = [{'id': 1, 'name': 'car'}, {'id': 2, 'name': 'bike', 'supercategory': 'x'}]
    return [json.dumps({'images': images, 'annotations': [box], 'categories': categories})]


def _bdd100k() -> list[str]:
    box = {'x1': 1, 'y1': 2, 'x2': 5, 'y2': 9}
    found = {'category': 'car', 'box2d': box, 'attributes': {'crowd': False}}
    row = {'name': 'a.jpg', 'labels': [found, {'category': 'lane'}]}
    return [json.dumps([row, {'name': 'b.jpg'}]), json.dumps({'frames': [row]})]


def _tracks() -> list[str]:
    box = {'category': 'pedestrian', 'id': '1', 'box2d': {'x1': 1, 'y1': 2, 'x2': 5, 'y2': 9}}
    first = {'name': 'v-0000001.jpg', 'videoName': 'v', 'frameIndex': 0, 'labels': [box]}
    second = {'name': 'v-0000002.jpg', 'videoName': 'v', 'frameIndex': 1}
    return [json.dumps([first, second])]


def _cityscapes() -> list[str]:
    corners = [[1, 2], [5, 2], [5, 9]]
    objects = [{'label': label, 'polygon': corners} for label in ('car', 'cargroup', 'sky')]
    return [json.dumps({'imgWidth': 30, 'imgHeight': 20, 'objects': objects})]


def _speeds() -> list[str]:
    places = [{'timestamp': 1000 * number, 'speed': number} for number in range(3)]
    return [json.dumps({'startTime': 0, 'locations': places}), json.dumps({'gps': places})]


def _names() -> list[str]:
    facts = {'path': '.', 'val': 'images', 'train': '../train/images', 'nc': 2}
    return [
        json.dumps({**facts, 'names': ['car', 'bike']}),
        json.dumps({**facts, 'names': {'0': 'car', '1': 'bike'}}),
        'names: {0: car}\nval: images\n',
    ]


_VOC = (
    '<annotation><object><name>car</name><difficult>0</difficult><bndbox><xmin>1</xmin><ymin>2'
    '</ymin><xmax>5</xmax><ymax>9</ymax></bndbox></object></annotation>'
)
_SEEDS: dict[str, Callable[[], list]] = {
    'bag_mcap': _mcaps,
    'bag_db3': _databases,
    'bag_folder': _metadata,
    'drive': _drives,
    'recording': _recordings,
    'image_message': _messages,
    'image_file': _images,
    'video': _videos,
    'onnx': partial(_whole, 'onnx'),
    'openvino_ir': lambda: [openvino_ir()[0]],
    'tflite': partial(_whole, 'tflite'),
    'model_set': _sets,
    'tasks': _tasks,
    'mapping': lambda: ['{"car": "vehicle", "tree": null}', 'car: vehicle\ntree: null\n'],
    'weights': _weights,
    'state_dict': _state_dicts,
    'profile': _profiles,
    'quality': _qualities,
    'calibration': _calibrations,
    'segments': _segments,
    'coco': _coco,
    'bdd100k': _bdd100k,
    'bdd100k_tracks': _tracks,
    'cityscapes': _cityscapes,
    'kitti': lambda: ['Car 0 0 0 1 2 5 9 1 1 1 1 1 1 0\nDontCare -1 -1 -10 1 2 3 4 -1 -1 -1 -1\n'],
    'yolo': lambda: ['0 0.5 0.5 0.2 0.2\n1 0.1 0.1 0.5 0.1 0.5 0.5\n'],
    'yolo_names': _names,
    'pascal_voc': lambda: [_VOC],
    'speed_csv': lambda: ['stamp_s,speed_mps\n0.0,1.0\n0.5,2.0\n'],
    'speed_json': _speeds,
    'loss_log': lambda: ['{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25, "box": 1}\n'],
}
