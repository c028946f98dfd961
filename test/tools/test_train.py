"""The command as a user runs it, on three images and a rendered drive, killed half-way and resumed."""
import json
import subprocess
import sys

import cv2
import numpy as np
import pytest

from deadline_perception.detector.checkpoint import load_detector
from deadline_perception.tools.command_line import main


@pytest.fixture()
def annotations(tmp_path):
    names = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
    images, boxes = [], []
    for i in range(3):
        image = np.full((380, 640, 3), 40 * i, np.uint8)
        cv2.rectangle(image, (100 + 50 * i, 120), (220 + 50 * i, 200), (250, 250, 250), -1)
        cv2.imwrite(str(tmp_path / f'{i}.png'), image)
        images.append({'id': i, 'file_name': f'{i}.png', 'width': 640, 'height': 380})
        boxes.append({'id': i, 'image_id': i, 'category_id': 1, 'bbox': [100 + 50 * i, 120, 120, 80], 'area': 9600,
                      'iscrowd': 0})
    file = tmp_path / 'train.json'
    file.write_text(json.dumps({'images': images, 'annotations': boxes,
                                'categories': [{'id': i + 1, 'name': name} for i, name in enumerate(names)]}))
    return file


def test_killed_run_goes_on_and_writes_weights(annotations, tmp_path):
    words = ['train', '--data', str(annotations), '--steps', '3', '--batch', '1', '--threads', '1',
             '--state', str(tmp_path / 'state.safetensors'), '--out', str(tmp_path / 'weights.safetensors')]
    killed = subprocess.run(
        [sys.executable, '-c', 'import os, sys\nfrom deadline_perception.learning import trainer\n'
         'from deadline_perception.tools import train\ntrain._SAVE_EVERY_S = 0.0\n'
         'save = trainer.Trainer.save\n'
         'def save_and_die(self, file):\n    save(self, file)\n    os._exit(9)\n'
         'trainer.Trainer.save = save_and_die\n'
         'from deadline_perception.tools.command_line import main\nmain(sys.argv[1:])', *words],
        capture_output=True, text=True, timeout=200)
    assert killed.returncode == 9, killed.stderr
    assert (tmp_path / 'state.safetensors').is_file() and not (tmp_path / 'weights.safetensors').exists()
    assert main(words) == 0
    assert load_detector(tmp_path / 'weights.safetensors').config_name == 'compact'
    assert not list(tmp_path.glob('*.partial'))


def test_missing_annotations_are_named(tmp_path, capsys):
    assert main(['train', '--data', str(tmp_path / 'none.json'), '--steps', '1']) == 1
    assert 'none.json' in capsys.readouterr().err
