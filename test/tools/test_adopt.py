"""The command `deadline-perception adopt` on real exports with random weights."""

import json
import re

import numpy as np
import pytest
from adopted_models import write_annotations
from exported_files import exported
from made_up_models import small_yolo
from python_run import run_python

from deadline_perception.core.device import DEFAULT_THREADS
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.engines.openvino_library import load_openvino
from deadline_perception.extras.external_models.model_set.set_file import SetFile, load_set
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.tools.command_line import main
from deadline_perception.tools.support.ensure_profile import ensure_profile

pytestmark = pytest.mark.slow


def test_writes_the_set_its_profile_and_its_qualities(adopted):
    assert adopted.run.returncode == 0, adopted.run.stderr
    content = SetFile.load(adopted.set_file)
    assert [model.name for model in content.models] == ['yolo', 'ssdlite']  # ascending in time
    assert content.classes == ('vehicle', 'person')
    assert content.models[0].classes == ('vehicle', 'person', None)
    assert all(model.memory_mb > 0 for model in content.models)
    network = load_set(adopted.set_file)
    profile = LatencyProfile.load(adopted.set_file.with_suffix('.profile.json'))
    assert profile.network_hash == network.network_hash
    assert set(profile.paths) == {'myolo', 'mssdlite'}
    # as the node runs it
    assert (profile.facts.threads, profile.facts.allocator) == (DEFAULT_THREADS, 'retaining')
    assert profile.engine == network.engine.identity
    assert list((adopted.folder / 'cache').rglob(f'{network.config_name}-*-t2.json'))
    quality = PathQuality.load(adopted.set_file.with_suffix('.quality.json'), network.path_space)
    quality.check(network.weights_hash)
    assert {str(path) for path in quality.known} == {'myolo', 'mssdlite'}
    assert json.loads(adopted.set_file.with_suffix('.quality.json').read_text())['images'] == 8


def test_other_commands_take_the_set_as_they_take_weights(adopted, tmp_path, monkeypatch, says):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    at_hand = ensure_profile(adopted.set_file, 'cpu', DEFAULT_THREADS, tmp_path)
    expected = (adopted.set_file.with_suffix('.profile.json'), False)
    assert (at_hand.file, at_hand.measured) == expected
    says(
        f'evaluate --weights {adopted.set_file} --data {adopted.folder / "val.json"}',
        f'--paths all --limit 2 --rank-by 2 --json {tmp_path / "quality.json"}',
    )
    quality = PathQuality.load(tmp_path / 'quality.json', load_set(adopted.set_file).path_space)
    assert {str(path) for path in quality.known} == {'myolo', 'mssdlite'}


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp('refused')
    small_yolo(folder)
    (folder / 'yolov8n.pt').write_bytes(b'weights')
    openvino = load_openvino()
    file = folder / 'small_yolo.onnx'
    openvino.save_model(openvino.convert_model(file), file.with_suffix('.xml'))
    return folder


@pytest.mark.parametrize(
    'arguments, said',
    [
        (['small_yolo.onnx'], 'the classes of .*small_yolo.onnx are not known: name them'),
        (
            ['small_yolo.onnx', '--classes', 'a,b,c', '--out', 'set.json'],
            'expected a file that ends with .yaml or .yml',
        ),
        (['nothing_like_that', '--classes', 'a'], "'nothing_like_that', expected an exported"),
        (['yolov8n.pt', '--classes', 'a'], 'expected an exported detector .* as ARCHITECTURE:FILE'),
        (['small_yolo.onnx', '--classes', 'a,b,c', '--keep-paths', '3'], '--keep-paths is given'),
        (
            ['small_yolo.xml', '--classes', 'a,b,c', '--device', 'cuda'],
            'model small_yolo is an exported file, .*, and the device cuda, expected cpu',
        ),
    ],
)
def test_arguments_that_make_no_sense_are_refused_in_one_line(
    folder, arguments, said, refusal, monkeypatch
):
    monkeypatch.chdir(folder)
    assert re.search(said, refusal('adopt', *arguments))


def test_a_file_is_refused_before_torch_is_loaded(tmp_path):
    file = exported(tmp_path / 'net.xml', {'output0': np.full((1, 5, 100), np.nan)})
    said = 'net.xml gave NaN or infinity, expected finite outputs'
    code = (
        'import sys\nfrom deadline_perception.tools.command_line import main\n'
        f'status = main(["adopt", {str(file)!r}, "--classes", "car"])\nprint(status, "torch" in sys.modules)'
    )
    run = run_python('-c', code)
    assert run.stdout == '1 False\n' and re.search(said, run.stderr) and run.stderr.count('\n') == 1


@pytest.mark.parametrize(
    'words, said',
    [
        (('--classes', 'car,b,c', '--data', 'val.json'), 'the models find car, b, c and .* names'),
        (
            ('--classes', 'vehicle,b,c', '--data', 'val.json'),  # sure of wrong boxes
            r'small_yolo.onnx was tried in \d+ ways, .* AP on 8 annotated images is [0-2]\.\d %.* Tried: .*letterbox, yolo',
        ),
    ],
)
@pytest.mark.usefixtures('network_settings')  # so that this process is not started anew
def test_a_model_that_cannot_be_used_is_told_before_anything_is_measured(
    folder, tmp_path, capsys, monkeypatch, words, said
):
    monkeypatch.chdir(tmp_path)
    write_annotations(tmp_path)
    assert main(['adopt', str(folder / 'small_yolo.onnx'), *words, '--out', 'set.yaml']) == 1
    assert re.search(said, capsys.readouterr().err.splitlines()[-1])
    assert not (tmp_path / 'set.yaml').exists()
