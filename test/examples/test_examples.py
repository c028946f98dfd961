import asyncio
import importlib.util
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from exported_files import exported
from invented_networks import MAGNIFIER, make_magnifier
from measurable_network import rough_profile
from plain_images import grey, write_images
from python_run import run_python
from recorded_run import write_drive
from timed_videos import write_video
from waiting import free_port

from deadline_perception.core.device import DEFAULT_THREADS, read_device_facts, use_threads
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, default_profile_path

pytestmark = pytest.mark.slow

MODEL = 'invented_networks:make_magnifier'
AMPLE_MS = 20_000.0  # nothing is late by accident on a busy machine


@pytest.fixture(scope='module')
def cache(tmp_path_factory) -> Path:
    """A cache folder that holds the profile of the invented network."""
    folder = tmp_path_factory.mktemp('cache')
    use_threads(DEFAULT_THREADS)
    profile = rough_profile(make_magnifier())
    places = folder / 'deadline_perception' / 'profiles'
    profile.save(default_profile_path(profile.config_name, read_device_facts(), places))
    return folder


@pytest.fixture(autouse=True)
def in_cache(cache, monkeypatch, tmp_path):
    monkeypatch.setenv('XDG_CACHE_HOME', str(cache))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def example(repository, monkeypatch):
    monkeypatch.syspath_prepend(repository / 'examples')

    def load(name):
        spec = importlib.util.spec_from_file_location(
            f'example_{name}', repository / 'examples' / f'{name}.py'
        )
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    return load


def test_each_script_is_short_and_has_its_test(repository):
    scripts, tests = sorted((repository / 'examples').glob('*.py')), Path(__file__).read_text()
    assert len(scripts) == 16
    for script in scripts:
        assert len(script.read_text().splitlines()) <= 75
        assert f"example('{script.stem}')" in tests or f"'{script.name}'" in tests


def photographs(folder: Path, count: int) -> Path:
    return write_images(folder, [grey(48, 64, 90)] * count, 'jpg')


def test_overlay(example, tmp_path):
    folder = photographs(tmp_path / 'frames', 4)
    cv2.imwrite(str(folder / '2.jpg'), grey(40, 80))  # of another size
    example('overlay').main(str(folder), str(tmp_path / 'out.mp4'), MODEL, AMPLE_MS)
    video = cv2.VideoCapture(str(tmp_path / 'out.mp4'))
    pictures = []
    while (read := video.read())[0]:
        pictures.append(read[1])
    assert len(pictures) == 4 and pictures[0].shape[0] > 48


def test_folder_to_coco(example, tmp_path):
    example('folder_to_coco').main(
        str(photographs(tmp_path / 'photos', 2)), str(tmp_path / 'found.json'), MODEL
    )
    found = json.loads((tmp_path / 'found.json').read_text())
    expected = [(1, [16.0, 12.0, 16.0, 12.0]), (2, [16.0, 12.0, 16.0, 12.0])]
    assert [(row['image_id'], row['bbox']) for row in found] == expected


def test_asyncio_service(example):
    async def ask() -> dict:
        port = free_port()
        service = asyncio.create_task(example('asyncio_service').main(port, MODEL, AMPLE_MS))
        while True:
            try:
                reader, writer = await asyncio.open_connection('localhost', port)
                break
            except OSError:
                assert not service.done(), service.exception()
                await asyncio.sleep(0.05)
        writer.write(cv2.imencode('.jpg', grey(48, 64, 90))[1].tobytes())
        writer.write_eof()
        content = json.loads(await reader.read())
        service.cancel()
        return content

    content = asyncio.run(ask())
    assert content['in_time'] and content['objects'][0]['box_xyxy_px'] == [16, 12, 32, 24]


def test_two_cameras(example, tmp_path, capsys):
    folders = [str(photographs(tmp_path / name, 2)) for name in ('left', 'right')]
    example('two_cameras').main(*folders, model=MODEL, budget_ms=AMPLE_MS)
    told = capsys.readouterr().out.splitlines()
    assert [sum(folder in line for line in told) for folder in folders] == [2, 2]
    assert [line for line in told if not ('<Answer 1 objects' in line and 'in time' in line)] == []


def test_with_supervision(example, tmp_path):
    pytest.importorskip('supervision')
    file = photographs(tmp_path / 'photos', 1) / '0.jpg'
    found = example('with_supervision').main(file, str(tmp_path / 'found.jpg'), MODEL)
    assert found['class_name'].tolist() == ['thing'] and len(found) == 1
    assert cv2.imread(str(tmp_path / 'found.jpg')).shape == (48, 64, 3)


def test_image(example, capsys, tmp_path):
    example('image').main(str(photographs(tmp_path / 'photos', 1) / '0.jpg'), MODEL)
    told = capsys.readouterr().out
    assert 'ms of 100, in time: ' in told and 'path z' in told
    drawn = cv2.imread(str(tmp_path / 'out/examples/image.jpg'))
    assert drawn.shape[1] == 64 and 'drawn in out/examples/image.jpg' in told
    example('image').main(model=MODEL)  # without a file: the photograph that ships
    with pytest.raises(ValueError, match='absent.jpg cannot be read, expected a JPEG, PNG'):
        example('image').main('absent.jpg', MODEL)


def test_video(example, tmp_path):
    images = [grey(48, 64, 10 * value) for value in range(12)]
    file = write_video(tmp_path / 'drive.avi', images)
    outcomes = example('video').main(str(file), MODEL, AMPLE_MS)
    assert outcomes['DETECTED'] >= 1
    assert outcomes['DETECTED'] + outcomes['superseded'] == 12
    assert cv2.VideoCapture(str(tmp_path / 'out/examples/video.mp4')).isOpened()
    with pytest.raises(SystemExit, match='absent.avi cannot be opened'):
        example('video').main('absent.avi', MODEL)


@pytest.mark.usefixtures('network_settings')
def test_own_onnx_model(repository, tmp_path, cache):
    # centre, width, height, and the scores of two classes
    cells = np.zeros((1, 6, 126), np.float32)
    cells[0, :, 7] = 48.0, 32.0, 40.0, 20.0, 0.9, 0.1
    names = {'names': "{0: 'car', 1: 'dog'}"}
    file = exported(tmp_path / 'yolo.xml', {'output0': cells}, facts=names)
    done = run_python(repository / 'examples' / 'own_onnx_model.py', file)
    assert done.returncode == 0, done.stderr
    assert 'in time: True' in done.stdout and 'car 0.90 at' in done.stdout


def test_several_budgets(example, capsys):
    example('several_budgets').main(MODEL, (AMPLE_MS, 0.001))
    first, second = capsys.readouterr().out.splitlines()
    assert 'detected on z' in first
    assert 'late ' in second


def test_several_networks(example):
    told = example('several_networks').main(MODEL, MODEL, (AMPLE_MS, AMPLE_MS))
    assert sorted(line.partition(' on ')[0] for line in told) == ['far: detected', 'near: detected']


def test_bag_to_report(example, tmp_path):
    write_drive(tmp_path / 'run', frames=12)
    summary = example('bag_to_report').main(str(tmp_path / 'run'), str(tmp_path / 'out'))
    assert summary['frames_delivered'] == 12
    assert (tmp_path / 'out' / 'report.html').is_file()


def test_labels_from_a_bag(example, tmp_path):
    folder = photographs(tmp_path / 'images', 3)
    example('labels_from_a_bag').main(str(folder), str(tmp_path / 'labels.json'), MODEL)
    content = json.loads((tmp_path / 'labels.json').read_text())
    assert [row['bbox'] for row in content['annotations']] == [[16.0, 12.0, 16.0, 12.0]] * 3
    assert content['categories'] == [{'id': 1, 'name': 'thing'}] and len(content['images']) == 3
    assert all((tmp_path / image['file_name']).is_file() for image in content['images'])


def test_time_model(example, capsys):
    example('time_model').main(MODEL, 1.0, 3)
    *paths, last = capsys.readouterr().out.splitlines()
    assert len(paths) == 6 and all('expected' in line and 'bound' in line for line in paths)
    assert 'of 18 frames took longer than their bound' in last


def test_custom_network(example):
    answers = example('custom_network').main((AMPLE_MS,))
    assert answers[0].path == 's1.00' and answers[0].names == ('bright',)
    assert answers[0].boxes_xyxy_px.tolist() == [[160.0, 60.0, 241.0, 141.0]]
    network, image = example('custom_network').BrightRegions(), np.zeros((480, 640, 3), np.uint8)
    image[:5, :5] = image[100:130, 100:130] = 255
    assert network.detect(image).scores.tolist() == pytest.approx([0.9, 0.025])


def test_custom_policy(example, capsys, cache):
    script, space = example('custom_policy'), MAGNIFIER
    script.main(MODEL, AMPLE_MS)
    frontier, own = capsys.readouterr().out.splitlines()
    assert frontier.startswith('frontier: z') and own.startswith('half_the_time: z')
    forecast = PathForecast(LatencyProfile.load(next(cache.rglob('invented-*.json'))), space)
    quality = PathQuality.from_forecast(space, forecast)
    given = space, forecast, quality
    half, whole = script.HalfTheTime(*given), FrontierPolicy(*given)
    middle_ms = 2.0 * forecast.forecast_ms(space.smallest)
    assert half.plan(2.0 * middle_ms, 1.0) == whole.plan(middle_ms, 1.0)


def test_elastic_network(example, tmp_path):
    torch = pytest.importorskip('torch')
    from deadline_perception.extras.elastic.checkpoint import save_elastic
    from deadline_perception.extras.elastic.elastic import elastic
    from deadline_perception.extras.elastic.network import ElasticNetwork
    from deadline_perception.extras.elastic.source import NetworkSource

    source = NetworkSource('mobilenet_v3_small', ('cat', 'dog', 'fish'), (48, 64))
    data = torch.randn(8, 3, 48, 64, generator=torch.Generator().manual_seed(0))
    made = elastic(source.ordinary(), source.example_inputs, data, settings=(0.5, 1.0))
    file = tmp_path / 'net.safetensors'
    save_elastic(ElasticNetwork(made, source), file)
    whole, late = example('elastic_network').main(str(file), (AMPLE_MS, 0.001))
    assert whole.in_time and len(whole.scores) == 3 and whole.names == ('cat', 'dog', 'fish')
    assert not late.in_time
