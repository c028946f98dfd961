"""What paths of the shipped network and a public detector find in real images, kept one file an image.

Every look is a network and one of its paths. What two looks find together is merged from this by whoever replays.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from rich.progress import track

from deadline_perception.core.detections import Detections
from deadline_perception.core.replaced_file import replace_file
from deadline_perception.engines.segment_run import Network
from deadline_perception.extras.data.records import GroundTruth
from parts.real_images import SOURCES, Images

OURS, PUBLIC = 'street', 'street-first'
# Of every scale the whole path, mostly one that skips all that can be skipped, and some between that the frontier plans.
OUR_PATHS = (
    'r0.44-s01100-w0.75-p50-h0',
    'r0.44-s01100-w1.00-p100-h0',
    'r0.44-s01000-w1.00-p100-h0',
    'r0.44-s00000-w1.00-p100-h0',
    'r0.44-s00000-w1.00-p100-h2',
    'r0.53-s01100-w1.00-p100-h0',
    'r0.53-s01100-w1.00-p100-h2',
    'r0.53-s00000-w1.00-p100-h0',
    'r0.53-s00000-w1.00-p100-h2',
    'r0.75-s00000-w1.00-p100-h0',
    'r0.75-s00000-w1.00-p100-h2',
    's01100-w1.00-p100-h2',
    's01000-w1.00-p100-h2',
    's00000-w1.00-p100-h0',
    's00000-w1.00-p100-h2',
)
PUBLIC_PATHS = ('r0.43', 'r0.58', 'r1.00')
LOOKS = tuple((OURS, path) for path in OUR_PATHS) + tuple((PUBLIC, path) for path in PUBLIC_PATHS)
KINDS = SOURCES | {'drive': ('kitti_0095/sequence.json', ('vehicle', 'person', 'bike'))}
LEAST_SCORE, MOST_OBJECTS = 0.01, 100  # of a look, that are kept

Look = tuple[str, str]


@dataclass(frozen=True, eq=False)
class SeenImage:
    """One image, what is known of it and what the looks found.

    Attributes:
        kind, name: of the image.
        size: height and width in px.
        truth: labels index `CLASSES`, of the classes that its kind marks.
        found: by look; labels index the classes of the look's network.
    """

    kind: str
    name: str
    size: tuple[int, int]
    truth: GroundTruth
    found: Mapping[Look, Detections]

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """That its kind marks."""
        return KINDS[self.kind][1]


def record(networks: Mapping[str, Network], data: Path, folder: Path, limit: int | None) -> None:
    """Looks at every image that was not looked at before, each by all looks. `data` is the folder of the kinds; of each
    kind at most `limit` images, spread evenly."""
    paths = {look: networks[look[0]].path_space.parse(look[1]) for look in LOOKS}
    work = [
        (kind, frame, known)
        for kind, source in KINDS.items()
        for images in [Images.whole(data, kind, source, limit)]
        for frame, known in zip(images.frames, images.known)
    ]
    missing = [one for one in work if not _file(folder, one[0], one[1].name).is_file()]
    print(f'{len(work)} images, {len(work) - len(missing)} of them recorded before', flush=True)
    for kind, frame, known in track(missing, 'images'):
        image = frame.load_bgr()
        found = {
            look: networks[look[0]].start(image, path).finish() for look, path in paths.items()
        }
        seen = SeenImage(kind, frame.name, image.shape[:2], known, found)
        _keep(_file(folder, kind, frame.name), seen)


def read(folder: Path) -> list[SeenImage]:
    """All that was recorded, kind by kind in the order of names.

    Raises:
        ValueError: nothing was.
    """
    images = [_kept(kind, file) for kind in KINDS for file in sorted((folder / kind).glob('*.npz'))]
    if not images:
        raise ValueError(f'no image is recorded in {folder}, expected some: run with --only record')
    return images


def _file(folder: Path, kind: str, name: str) -> Path:
    return folder / kind / f'{Path(name).stem}.npz'


def _keep(file: Path, image: SeenImage) -> None:
    arrays = {
        ' '.join(look): np.column_stack([found.boxes_xyxy_px, found.scores, found.labels])
        for look, found in image.found.items()
    }
    truth = image.truth
    arrays['truth'] = np.column_stack([truth.boxes_xyxy_px, truth.labels, truth.crowd])
    floats = {name: np.asarray(rows, np.float32) for name, rows in arrays.items()}
    keep_arrays(file, size=image.size, **floats)


def keep_arrays(file: Path, **arrays: object) -> None:
    """Writes arrays into a file that is there as a whole or not at all."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    replace_file(file, stream.getvalue())


def _kept(kind: str, file: Path) -> SeenImage:
    with np.load(file) as kept:
        truth = kept['truth']
        found = {look: _detections(kept[' '.join(look)]) for look in LOOKS}
        size = (int(kept['size'][0]), int(kept['size'][1]))
    known = GroundTruth(truth[:, :4], truth[:, 4].astype(np.int64), truth[:, 5] > 0)
    return SeenImage(kind, file.stem, size, known, found)


def _detections(rows: np.ndarray) -> Detections:
    rows = rows[rows[:, 4] >= LEAST_SCORE][:MOST_OBJECTS]
    return Detections(rows[:, :4], rows[:, 4], rows[:, 5].astype(np.int64))
