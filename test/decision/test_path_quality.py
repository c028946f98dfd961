import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_qualities import PATHS, SPACE, logistic_ap, sample

from deadline_perception.core.execution_path import MODEL, Operator, PathSpace, Segment
from deadline_perception.decision.path_quality import MonotoneModel, PathQuality, QualityTableError


def test_recovers_a_truth_that_adds_up():
    quality = PathQuality({path: logistic_ap(path) for path in sample(60)})
    error = np.abs(quality.table(PATHS) - [logistic_ap(path) for path in PATHS])
    assert error.max() < 0.005


def test_measurement_and_model_are_weighed_by_their_variances():
    # The smaller path measured better, which the model takes for chance: both odds are the geometric mean of 1 and 3/7,
    # 0.6547, so 0.3957 is predicted for both. The distances' mean square is (0.0957^2 + 0.1043^2) / 2 = 0.01002, of
    # which 0.05^2 is chance: 25 % of each distance goes.
    known = {SPACE.largest: 0.3, SPACE.smallest: 0.5}
    quality = PathQuality(known, errors=dict.fromkeys(known, 0.05))
    assert quality.quality(SPACE.largest) == pytest.approx(0.3 + 0.2495 * 0.0957, abs=2e-4)
    assert quality.quality(SPACE.smallest) == pytest.approx(0.5 - 0.2495 * 0.1043, abs=2e-4)
    assert quality.trust == pytest.approx(0.7505, abs=2e-4)
    assert quality.known == known
    # With more chance than there is distance the measurements say nothing beyond the model.
    noisy = PathQuality(known, errors=dict.fromkeys(known, 0.2))
    assert noisy.table([SPACE.largest, SPACE.smallest]) == pytest.approx([0.3957, 0.3957], abs=1e-3)
    assert noisy.trust == 0.0
    # A measurement that the model cannot follow stays within its standard error.
    far = {SPACE.largest: 0.3, SPACE.smallest: 0.5, SPACE.largest.replace(width=0.25): 0.31}
    limited = PathQuality(far, errors={SPACE.smallest: 0.02, SPACE.largest: 0.3})
    assert limited.quality(SPACE.smallest) == pytest.approx(0.48)
    # An exact measurement is kept beside an inexact one.
    mixed = PathQuality(known, errors={SPACE.largest: 0.05})
    assert mixed.quality(SPACE.smallest) == 0.5 and 0.3 < mixed.quality(SPACE.largest) < 0.3957


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 40))
def test_predictions_are_in_range_and_a_larger_setting_never_harms(seed, count):
    paths = sample(count, seed)
    values = np.random.default_rng(seed).choice([0.0, 1.0, 0.2, 0.9], len(paths))
    model = MonotoneModel(paths, values)
    predicted = dict(zip(PATHS, model.predict(PATHS)))
    assert all(0.0 <= value <= 1.0 for value in predicted.values())
    for path in PATHS[::11]:
        for operator in SPACE.operators:
            larger = path.replace(**{operator.name: operator.settings[-1]})
            assert predicted[larger] >= predicted[path] - 1e-9


NAME = 's00-w1.00-p10-h0'


def table(name=NAME, **measured) -> str:
    """Of one path."""
    return json.dumps({'weights_hash': 'a', 'paths': {name: measured}})


@pytest.mark.parametrize(
    'content, message',
    [
        (None, 'quality.json cannot be read: .*No such file'),
        ('{', 'cannot be read'),
        ('{"weights_hash": "a"}', "lack 'paths'"),
        ('{"weights_hash": "a", "paths": {}}', '0 measured paths'),
        (table(ap50=0.3), "lack 'ap'"),
        (table(ap='x'), f"ap of path {NAME} is 'x'"),
        (table(ap=31), 'is 31'),
        (table(ap=0.3, ap_error=-1), f'standard error of path {NAME} is -1'),
        (table('banana', ap=0.3), "'banana'"),
    ],
)
def test_unusable_file_is_refused_by_name(tmp_path, content, message):
    file = tmp_path / 'quality.json'
    if content is not None:
        file.write_text(content)
    with pytest.raises(QualityTableError, match=message) as caught:
        PathQuality.load(file, SPACE)
    assert str(file) in str(caught.value)


def test_without_measurements_quality_grows_with_the_logarithm_of_time(make_forecast, foreign_path):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 4.0 * name.startswith('stage1@w1'))
    quality = PathQuality.from_forecast(SPACE, forecast)
    order = np.argsort(forecast.table(PATHS), kind='stable')
    values = quality.table(PATHS)[order]
    assert (np.diff(values) >= 0).all() and values[0] == 0.0 and values[-1] == 1.0
    assert not quality.measured
    quality.check('any network')
    with pytest.raises(ValueError, match='forecast paths'):
        quality.quality(foreign_path)
    measured = PathQuality({SPACE.largest: 0.5}, weights_hash='abc')
    measured.check('abc')
    with pytest.raises(QualityTableError, match="'abc', expected 'xyz'"):
        measured.check('xyz')


def test_refuses_impossible_fits(foreign_path):
    with pytest.raises(ValueError, match='path whole is of another network'):
        MonotoneModel([SPACE.largest], [0.5]).predict([foreign_path])
    largest = SPACE.largest
    for known, errors, message in (
        ({largest: 0.5, foreign_path: 0.5}, {}, '2 measured paths, .*, all of one network'),
        ({largest: 1.5}, {}, 'is 1.5, expected'),
        ({largest: 0.5}, {largest: math.nan}, 'is nan, expected a number in'),
    ):
        with pytest.raises(QualityTableError, match=message):
            PathQuality(known, errors=errors)


# Models of which one has paths.
MODELS = PathSpace(
    (
        Operator('model', MODEL, ('small', 'many', 'large'), 'm'),
        Operator('width', 'width', (0.25, 0.5, 1.0), 'w'),
    ),
    (
        Segment('choose', 'pre', 'model'),
        Segment('body', 'body', 'width', ('width',), only_on=('model', 'many')),
    ),
)


def test_models_are_predicted_from_their_own_paths_alone(tmp_path):
    """A larger model that is worse would otherwise pull the others with it."""
    values = {'msmall': 0.5, 'mmany-w0.25': 0.1, 'mmany-w1.00': 0.3, 'mlarge': 0.2}
    known = {MODELS.parse(name): value for name, value in values.items()}
    quality = PathQuality(known, errors=dict.fromkeys(known, 0.05), weights_hash='w')
    found = list(map(quality.quality, known))
    assert found == pytest.approx(list(known.values()), abs=5e-3)
    assert 0.1 < quality.quality(MODELS.parse('mmany-w0.50')) < 0.3
    quality.save(tmp_path / 'quality.json')
    assert PathQuality.load(tmp_path / 'quality.json', MODELS).known == quality.known
    del known[MODELS.parse('mlarge')]
    PathQuality(known, weights_hash='w').save(tmp_path / 'quality.json')
    message = 'no path of large, expected one at least of each model'
    with pytest.raises(QualityTableError, match=message):
        PathQuality.load(tmp_path / 'quality.json', MODELS)
    with pytest.raises(ValueError, match='path mlarge is of a model without a measured path'):
        PathQuality(known).quality(MODELS.parse('mlarge'))
