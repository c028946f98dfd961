"""The quality table of the first look, on the images that `parts/table_images.json` names.

    python benchmarks/first_table.py [--data ../shared/data] [--model street-first] [--out models/street-first.quality.json]

85 of the 250 dashcams that `first_pass.py` measures AP50 on, 26 images of CARLA's val, 16 of `coco_small`'s and 12 of
signs and lights: `street-first` was neither trained nor calibrated on them. They are put together below out/first_table,
and `evaluate` measures every path on them, in floating point on one thread.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from parts.harness import ROOT
from street_accuracy import NAMES

from deadline_perception.core.replaced_file import replace_file
from deadline_perception.tools.command_line import main

IMAGES = ROOT / 'benchmarks/parts/table_images.json'
# As the shipped networks know them. Of signs COCO marks only those that say stop: its images tell nothing of signs.
CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign', 'person')
RENAMED = {
    **NAMES,
    **dict.fromkeys(('motor', 'motorcycle', 'motorbike'), 'motorbike'),
    'stop sign': '',
}


def chosen_images(data: Path, folder: Path) -> list[Path]:
    """COCO files of the named images alone, with the classes of the shipped networks.

    Raises:
        ValueError: a source lacks one of its images.
    """
    files = []
    for source, names in json.loads(IMAGES.read_text()).items():
        content = json.loads((data / source).read_text())
        images = [one for one in content['images'] if Path(one['file_name']).name in names]
        if len(images) != len(names):
            raise ValueError(f'{source} has {len(images)} of the {len(names)} images of the table')
        ids = {one['id'] for one in images}
        name_of = {
            one['id']: RENAMED.get(one['name'], one['name']) for one in content['categories']
        }
        marked = [name for name in CLASSES if name in name_of.values()]
        objects = [
            {**one, 'category_id': marked.index(name_of[one['category_id']]) + 1}
            for one in content['annotations']
            if one['image_id'] in ids and name_of[one['category_id']] in marked
        ]
        categories = [{'id': place + 1, 'name': name} for place, name in enumerate(marked)]
        place = folder / source.partition('/')[0]
        place.mkdir(parents=True, exist_ok=True)
        if not (place / 'images').exists():
            (place / 'images').symlink_to((data / source).parent.resolve() / 'images')
        table = {'images': images, 'annotations': objects, 'categories': categories}
        replace_file(place / 'table.json', json.dumps(table))
        files.append(place / 'table.json')
    return files


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('--data', type=Path, default=ROOT / '../shared/data')
    parser.add_argument('--model', default='street-first')
    parser.add_argument('--out', type=Path, default=ROOT / 'models/street-first.quality.json')
    args = parser.parse_args()
    sources = map(str, chosen_images(args.data, ROOT / 'out/first_table'))
    wanted = ['--model', args.model, '--paths', 'all', '--threads', '1', '--out', str(args.out)]
    sys.exit(main(['evaluate', '--data', *sources, *wanted]))
