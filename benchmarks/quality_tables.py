"""The quality tables of `street` and of its first look, on images of six kinds.

    python benchmarks/quality_tables.py [--data ../shared/data] [--only street street-first] [--folder models]

A table of dashcams alone says of near and large objects, and of bikes, what chance has it say: they show few. So each kind
has its images here, which training did not see but for some photographs in early runs of `street`: 80 dashcams, 44 of
COCO, 30 photographs of vehicles, 30 of Dhaka, 30 of signs and lights, and 24 of CARLA. `first_pass.py` measures AP50 on
others but 30 each of COCO, photographs and Dhaka and 15 of signs, and fits scores and fusion on those of dashcams and
CARLA. They are put together below out/quality_tables; `evaluate` measures on them the paths that
the table names already, in floating point on one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from parts.harness import ROOT
from parts.real_images import EVEN, NAMES, Choice

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.extras.data.records import spread_evenly
from deadline_perception.networks.model_reference import find_weights
from deadline_perception.tools.command_line import main as command

IMAGES: tuple[Choice, ...] = (
    ('bdd100k/val.json', EVEN, 80),
    ('coco_small/val.json', EVEN, 44),
    ('vehicles_openimages/train.json', (10, (2,)), 30),
    ('road_vehicle_dhaka/val.json', EVEN, 30),
    ('road_signs/val.json', EVEN, 30),
    ('carla/val.json', EVEN, 24),
)
# As the shipped networks know them. Of signs COCO marks only those that say stop: its images tell nothing of signs.
CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign', 'person')
RENAMED = {
    **NAMES,
    **dict.fromkeys(('motor', 'motorcycle', 'Motorcycle', 'motorbike'), 'motorbike'),
    'stop sign': '',
}


def measure(data: Path, names: list[str], folder: Path) -> int:
    """Writes the tables; returns the status of the first that could not be measured, or 0."""
    files = [str(chosen_images(data, choice)) for choice in IMAGES]
    for name in names:
        table = find_weights(name).with_suffix('.quality.json')
        paths = ','.join(json.loads(table.read_text())['paths'])
        out = str(folder / table.name)
        wanted = ['--model', name, '--paths', paths, '--threads', '1', '--out', out]
        if status := command(['evaluate', '--data', *files, *wanted]):
            return status
    return 0


def chosen_images(data: Path, choice: Choice) -> Path:
    """A COCO file of these images alone, with the classes of the shipped networks; images without an object stay."""
    file, (step, places), count = choice
    content = json.loads((data / file).read_text())
    name_of = {one['id']: RENAMED.get(one['name'], one['name']) for one in content['categories']}
    images = [one for place, one in enumerate(content['images']) if place % step in places]
    images = spread_evenly(images, min(count, len(images)))
    ids = {one['id'] for one in images}
    marked = [name for name in CLASSES if name in name_of.values()]
    objects = [
        {**one, 'category_id': marked.index(name_of[one['category_id']]) + 1}
        for one in content['annotations']
        if one['image_id'] in ids and name_of[one['category_id']] in marked
    ]
    categories = [{'id': place + 1, 'name': name} for place, name in enumerate(marked)]
    folder = ROOT / 'out/quality_tables' / Path(file).parent
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / 'images').exists():
        (folder / 'images').symlink_to((data / file).parent.resolve() / 'images')
    chosen = {'images': images, 'annotations': objects, 'categories': categories}
    replace_file(folder / 'table.json', json.dumps(chosen))
    return folder / 'table.json'


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--data', type=Path, default=ROOT / '../shared/data')
    parser.add_argument('--only', nargs='+', default=['street', 'street-first'])
    parser.add_argument('--folder', type=Path, default=ROOT / 'models')
    args = parser.parse_args()
    sys.exit(measure(args.data, args.only, args.folder))
