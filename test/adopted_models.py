"""A set of own models as the command `adopt` writes it, made once per run: a small YOLO and a detector of
torchvision."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from annotated_images import write_coco
from measurable_network import run_command


@dataclass(frozen=True)
class Adopted:
    """What the command wrote and said."""

    folder: Path
    set_file: Path
    run: subprocess.CompletedProcess


def write_annotations(folder: Path) -> Path:
    """Eight noisy images with one vehicle each, in COCO format."""
    rng = np.random.default_rng(0)
    noise = rng.integers(0, 256, (8, 60, 90, 3), dtype=np.uint8)
    images = {f'images/{number}.png': image for number, image in enumerate(noise, 1)}
    places = [(label, (20 * label + 20, 20, 30, 30)) for label in (0, 1)]
    boxes = [(number, *place) for number in range(8) for place in places]
    return write_coco(folder / 'val.json', images, boxes, ('vehicle', 'train'))


@pytest.fixture(scope='session')
def adopted(tmp_path_factory) -> Adopted:
    pytest.importorskip('openvino')
    from exported_files import exported
    from made_up_models import ssdlite_weights

    # Finds the vehicle of every image, at 20 to 50 px of 90 x 60, which are 64 x 96 px in its input.
    columns = np.zeros((1, 7, 24), np.float32)
    columns[0, :, 3] = [37.33, 37.33, 32.0, 32.0, 0.9, 0.0, 0.0]
    folder = tmp_path_factory.mktemp('adopted')
    yolo, weights = exported(folder / 'yolo.xml', {'output0': columns}), ssdlite_weights(folder)
    rename, set_file = folder / 'rename.yaml', folder / 'sets' / 'set.yaml'
    rename.write_text('car: vehicle\nbike: null\n')
    data = write_annotations(folder)
    run = run_command(
        *('adopt', f'ssdlite320_mobilenet_v3_large:{weights}', yolo, '--float-only'),
        *('--classes', 'car,person,bike', '--rename', rename, '--minutes', '0.05'),
        *('--data', data, '--images', data, '--out', set_file),
        environment={'XDG_CACHE_HOME': str(folder / 'cache')},
    )
    return Adopted(folder, set_file, run)
