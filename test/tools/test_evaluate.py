"""The command `deadline-perception evaluate` on a small annotated set and a network with random weights."""

import argparse
import json

import cv2
import pytest
from annotated_images import write_coco
from plain_images import grey
from python_run import run_python

from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.networks.multi_path.checkpoint import load_detector
from deadline_perception.tools import evaluate
from deadline_perception.tools.command_line import main

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')


@pytest.fixture(scope='module')
def weights(tmp_path_factory):
    file = tmp_path_factory.mktemp('weights') / 'random.safetensors'
    save_detector(build_detector('compact', NAMES, seed=0), file)
    return file


@pytest.fixture
def annotations(tmp_path):
    """Three grey images with one vehicle each, in COCO format."""
    images = {f'images/{index}.jpg': grey(96, 160, 60 * index) for index in range(1, 4)}
    boxes = [(number, 0, (20, 20, 40, 40)) for number in range(3)]
    return write_coco(tmp_path / 'val.json', images, boxes, NAMES)


def rename(annotations, *names, of_second=1):
    """Gives the classes other names, and the second object another class."""
    content = json.loads(annotations.read_text())
    content['categories'] = [{'id': number, 'name': name} for number, name in enumerate(names, 1)]
    content['annotations'][1]['category_id'] = of_second
    return json.dumps(content)


def objects_of(table):
    """How many of each class the first path was scored on."""
    rows = next(iter(json.loads(table.read_text())['paths'].values()))['per_class']
    return {name: row['ground_truths'] for name, row in rows.items()}


@pytest.fixture
def words(weights, annotations, tmp_path):
    """Words of the command for some paths; of options behind them that are given again the last one counts."""
    start = f'evaluate --data {annotations} --weights {weights} --json {tmp_path / "q.json"}'
    return lambda paths, *more: [*start.split(), '--paths', paths, *map(str, more)]


def test_writes_a_table_that_the_decision_can_load(words, weights, tmp_path, says):
    table = tmp_path / 'out/quality.json'
    space = build_detector('compact', NAMES).path_space
    paths = f'{space.smallest},{space.largest}'
    printed = says(*words(paths, '--limit', 2, '--rank-by', 2, '--json', table))
    content = json.loads(table.read_text())
    expected = ('pooled_ap', {'vehicle': 2}, 2)
    assert (content['metric'], content['ranked_by'], content['images']) == expected
    assert set(content['paths']) == {str(space.smallest), str(space.largest)}
    for scores in content['paths'].values():
        assert 0 <= scores['ap'] <= scores['ap50'] <= 1
        assert scores['per_class']['vehicle']['ground_truths'] == 2
        assert 0 <= scores['pooled_ap_error'] < 0.5
    quality = PathQuality.load(table, space)
    quality.check(load_detector(weights).weights_hash)
    ap = content['paths'][str(space.largest)]['ap']
    assert quality.quality(space.largest) == pytest.approx(ap, abs=1e-9)
    assert content['prediction_error']['paths'] == content['prediction_error']['folds'] == 2
    for said in (
        'paths are ranked by the mean AP of vehicle (2 objects)',
        str(space.smallest),
        'error of predicting a path from the others',
    ):
        assert said in printed


@pytest.mark.slow
def test_two_processes_write_the_table_of_one(words, weights, tmp_path):
    detector = load_detector(weights)
    small = detector.path_space.smallest
    paths = f'cheapest,{small},{str(small).replace("p10", "p25")},{str(small).replace("h0", "h1")}'
    one, two = tmp_path / 'one.json', tmp_path / 'two.json'
    assert main(words(paths, '--json', one)) == 0
    launch = '-m torch.distributed.run --standalone --nproc-per-node 2'.split()
    command = '-m', 'deadline_perception.tools.command_line', *words(paths, '--json', two)
    done = run_python(*launch, *command)
    assert done.returncode == 0, done.stderr
    assert json.loads(one.read_text()) == json.loads(two.read_text())
    assert done.stdout.count('wrote') == 1 and len(json.loads(one.read_text())['paths']) == 3


def test_unknown_classes_are_left_out_and_counted(words, annotations, tmp_path, says, refusal):
    annotations.write_text(rename(annotations, 'vehicle', 'tram', of_second=2))
    table, classes = tmp_path / 'q.json', tmp_path / 'classes.json'
    said = says(*words('cheapest'))
    assert 'does not name them: bike, motorbike, traffic_light, traffic_sign' in said
    assert 'no model finds their class: 1 of tram; --classes brings' in said
    assert 'none has 50 objects' in said
    assert json.loads(table.read_text())['metric'] == 'ap' and objects_of(table)['vehicle'] == 2
    classes.write_text('{"tram": "vehicle"}')
    assert 'no model finds' not in says(*words('cheapest', '--classes', classes))
    assert objects_of(table)['vehicle'] == 3
    classes.write_text('{"vehicle": "kart"}')
    error = refusal(*words('cheapest', '--classes', classes))
    assert 'names kart, tram, the weights know vehicle' in error and 'see --classes' in error


def test_each_class_is_scored_on_sources_that_name_it(words, annotations, tmp_path, says):
    other, table = tmp_path / 'other.json', tmp_path / 'q.json'
    other.write_text(rename(annotations, 'bike', 'tram'))
    said = says(*words('cheapest', '--data', annotations, other))
    written = json.loads(table.read_text())
    counts = objects_of(table)
    assert written['images'] == 6 and ' + ' in written['dataset']
    assert (counts['vehicle'], counts['bike'], counts['motorbike']) == (3, 3, 0)
    assert 'no model finds' not in said, 'nothing is marked as a tram'


def test_an_evaluation_that_breaks_off_leaves_the_old_table(words, annotations, tmp_path, refusal):
    table = tmp_path / 'q.json'
    table.write_text('as it was')
    (annotations.parent / 'images/3.jpg').unlink()
    assert 'images are missing, the first is' in refusal(*words('cheapest'))
    assert table.read_text() == 'as it was'
    assert sorted(file.name for file in tmp_path.glob('*q*')) == ['q.json']


def test_unreadable_images_are_named_and_left_out(words, annotations, tmp_path, says, refusal):
    # its header is whole
    cut_off = cv2.imencode('.png', grey(96, 160))[1].tobytes()[:60]
    (annotations.parent / 'images/2.jpg').write_bytes(cut_off)
    with pytest.warns(UserWarning, match='image images/2.jpg is left out, 1 so far: .*cut off'):
        said = says(*words('cheapest', '--rank-by', 1))
    table = json.loads((tmp_path / 'q.json').read_text())
    assert (table['images'], table['ranked_by']) == (2, {'vehicle': 2})
    assert 'left out: 1 of 3 images, which cannot be read' in said
    for number in (1, 3):
        (annotations.parent / f'images/{number}.jpg').write_bytes(cut_off)
    with pytest.warns(UserWarning, match='3 so far'):
        assert 'none of 3 images can be read, the last: ' in refusal(*words('cheapest'))


def test_paths_are_chosen_by_words_and_names_each_once(weights):
    detector = load_detector(weights)
    space = detector.path_space

    def chosen(words):
        return evaluate.chosen_paths(argparse.Namespace(paths=words), detector)

    assert chosen('all') == list(space)
    wanted = [space.largest, space.smallest, space.parse('s100-w0.50-p10-h0')]
    assert chosen('full,cheapest,full,s100-w0.50-p10-h0') == wanted
    assert len(set(chosen('sample'))) == 60 and set(chosen('sample')) <= set(space)


@pytest.mark.parametrize(
    'arguments, said',
    [
        (['--paths', 's1-w0.50-p10-h0'], "execution path is 's1-w0.50-p10-h0', expected a form"),
        (['--paths', 'frontier'], 'expected both'),
        (['--threads', '100000'], '--threads is 100000, expected 1 to 1024'),
        (['--json', 'val.json'], '--json is val.json, as another file of this command'),
    ],
)
def test_one_line_says_what_is_wrong(words, tmp_path, refusal, arguments, said, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refusal(*words('full', *arguments))
    assert not (tmp_path / 'q.json').exists()


def test_names_of_a_data_set_become_those_of_weights(words, annotations, says):
    annotations.write_text(rename(annotations, 'car', 'bicycle'))
    said = ' '.join(says(*words('cheapest')).split())
    assert 'classes brought together by the map' in said and 'car as vehicle' in said
