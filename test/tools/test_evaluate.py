"""The command `deadline-perception evaluate` on a small annotated set and a network with random weights."""

import argparse
import json

import cv2
import numpy as np
import pytest
from annotated_images import write_coco
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
    images = {
        f'images/{index}.jpg': np.full((96, 160, 3), 60 * index, np.uint8) for index in range(1, 4)
    }
    return write_coco(
        tmp_path / 'val.json', images, [(number, 0, (20, 20, 40, 40)) for number in range(3)], NAMES
    )


@pytest.fixture
def words(weights, annotations, tmp_path):
    """Words of the command for some paths; of options behind them that are given again the last one counts."""

    def command(paths, *more):
        return [
            *(
                f'evaluate --data {annotations} --weights {weights} --paths {paths} --json '
                f'{tmp_path / "q.json"}'
            ).split(),
            *map(str, more),
        ]

    return command


def test_writes_a_table_that_the_decision_can_load(words, weights, tmp_path, capsys):
    table = tmp_path / 'out' / 'quality.json'
    space = build_detector('compact', NAMES).path_space
    paths = f'{space.smallest},{space.largest}'
    assert main(words(paths, '--limit', 2, '--rank-by', 2, '--json', table)) == 0
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
    assert quality.quality(space.largest) == pytest.approx(
        content['paths'][str(space.largest)]['ap'], abs=1e-9
    )
    assert content['prediction_error']['paths'] == content['prediction_error']['folds'] == 2
    printed = capsys.readouterr().out
    assert 'paths are ranked by the mean AP of vehicle (2 objects)' in printed
    assert str(space.smallest) in printed
    assert 'error of predicting a path from the others' in printed


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


def test_unknown_classes_are_left_out_and_counted(words, annotations, tmp_path, capsys):
    content = json.loads(annotations.read_text())
    content['categories'] = [{'id': 1, 'name': 'vehicle'}, {'id': 2, 'name': 'tram'}]
    content['annotations'][1]['category_id'] = 2
    annotations.write_text(json.dumps(content))
    table, classes = tmp_path / 'q.json', tmp_path / 'classes.json'
    assert main(words('cheapest')) == 0
    said = capsys.readouterr().out
    assert 'does not name them: bike, motorbike, traffic_light, traffic_sign' in said
    assert 'no model finds their class: 1 of tram; --classes brings' in said
    assert 'none has 50 objects' in said
    scores = json.loads(table.read_text())
    assert scores['metric'] == 'ap'
    assert next(iter(scores['paths'].values()))['per_class']['vehicle']['ground_truths'] == 2
    classes.write_text('{"tram": "vehicle"}')
    assert main(words('cheapest', '--classes', classes)) == 0
    assert 'no model finds' not in capsys.readouterr().out
    assert (
        next(iter(json.loads(table.read_text())['paths'].values()))['per_class']['vehicle'][
            'ground_truths'
        ]
        == 3
    )
    classes.write_text('{"vehicle": "kart"}')
    assert main(words('cheapest', '--classes', classes)) == 1
    error = capsys.readouterr().err
    assert 'names kart, tram, the weights know vehicle' in error and 'see --classes' in error


def test_each_class_is_scored_on_sources_that_name_it(words, annotations, tmp_path, capsys):
    other, table = tmp_path / 'other.json', tmp_path / 'q.json'
    content = json.loads(annotations.read_text())
    content['categories'] = [{'id': 1, 'name': 'bike'}, {'id': 2, 'name': 'tram'}]
    other.write_text(json.dumps(content))
    assert main(words('cheapest', '--data', annotations, other)) == 0
    written = json.loads(table.read_text())
    assert written['images'] == 6 and ' + ' in written['dataset']
    counts = {
        name: row['ground_truths']
        for name, row in next(iter(written['paths'].values()))['per_class'].items()
    }
    assert (counts['vehicle'], counts['bike'], counts['motorbike']) == (3, 3, 0)
    assert 'no model finds' not in capsys.readouterr().out, 'nothing is marked as a tram'


def test_an_evaluation_that_breaks_off_leaves_the_old_table(words, annotations, tmp_path, refusal):
    table = tmp_path / 'q.json'
    table.write_text('as it was')
    (annotations.parent / 'images/3.jpg').unlink()
    assert 'images are missing, the first is' in refusal(*words('cheapest'))
    assert table.read_text() == 'as it was'
    assert sorted(file.name for file in tmp_path.glob('*q*')) == ['q.json']


def test_unreadable_images_are_named_and_left_out(words, annotations, tmp_path, capsys, refusal):
    # its header is whole
    cut_off = cv2.imencode('.png', np.zeros((96, 160, 3), np.uint8))[1].tobytes()[:60]
    (annotations.parent / 'images/2.jpg').write_bytes(cut_off)
    with pytest.warns(UserWarning, match='image images/2.jpg is left out, 1 so far: .*cut off'):
        assert main(words('cheapest', '--rank-by', 1)) == 0
    table, said = json.loads((tmp_path / 'q.json').read_text()), capsys.readouterr().out
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
    ('arguments', 'said'),
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


def test_names_of_a_data_set_become_those_of_weights(words, annotations, tmp_path, capsys):
    content = json.loads(annotations.read_text())
    content['categories'] = [{'id': 1, 'name': 'car'}, {'id': 2, 'name': 'bicycle'}]
    annotations.write_text(json.dumps(content))
    assert main(words('cheapest')) == 0
    said = ' '.join(capsys.readouterr().out.split())
    assert 'classes brought together by the map' in said and 'car as vehicle' in said
