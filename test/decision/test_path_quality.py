import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from invented_networks import SINGLE
from known_qualities import PATHS, SPACE, logistic_ap, sample
from path_spaces import ONE_PATH, space_of

from deadline_perception.core.execution_path import (
    MODEL,
    Operator,
    PathSpace,
    Segment,
)
from deadline_perception.decision.path_quality import (
    MonotoneModel,
    PathQuality,
    QualityTableError,
)


def test_recovers_a_truth_that_adds_up():
    quality = PathQuality({path: logistic_ap(path) for path in sample(60)})
    error = np.abs(quality.table(PATHS) - [logistic_ap(path) for path in PATHS])
    assert error.max() < 0.005


def test_pairs_of_operators_are_seen():
    """A head that pays only behind a wide backbone; width and head alone could not say so."""

    def paired_ap(path):
        of_both = (int(path['head']) / 2) * (path['width'] - 0.25) / 0.75
        return 0.1 + 0.2 * path['width'] + 0.3 * of_both

    quality = PathQuality({path: paired_ap(path) for path in sample(80)})
    gains = [
        quality.quality(SPACE.largest.replace(width=width))
        - quality.quality(SPACE.largest.replace(width=width, head='0'))
        for width in (1.0, 0.25)
    ]
    assert gains[0] > 0.2 > 0.07 > gains[1]


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
@given(seed=st.integers(0, 10_000), error=st.floats(0.001, 0.5))
def test_expected_values_lie_between_measurement_and_model(seed, error):
    rng = np.random.default_rng(seed)
    paths = sample(30, seed)
    noisy = [logistic_ap(path) + rng.normal(0, 0.05) for path in paths]
    measured = np.clip(noisy, 0, 1)
    known = dict(zip(paths, measured.tolist()))
    model = MonotoneModel(paths, measured).predict(paths)
    expected, more = (
        PathQuality(known, errors=dict.fromkeys(paths, value)).table(paths)
        for value in (error, 2 * error)
    )
    assert (expected >= np.minimum(model, measured) - 1e-12).all()
    assert (expected <= np.maximum(model, measured) + 1e-12).all()
    assert (np.abs(more - model) <= np.abs(expected - model) + 1e-12).all()


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


def test_setting_that_was_not_measured_lies_between_its_neighbours():
    measured = {SPACE.largest.replace(width=width): ap for width, ap in ((1.0, 0.6), (0.5, 0.2))}
    quality = PathQuality(measured)
    # Half-way between odds of 1.5 and 0.25 on the logistic scale: sqrt(1.5 * 0.25) = 0.612.
    for width, expected in ((0.75, 0.612 / 1.612), (0.25, 0.2)):
        found = quality.quality(SPACE.largest.replace(width=width))
        assert found == pytest.approx(expected, abs=0.01)


def test_file_round_trip(tmp_path):
    file, paths = tmp_path / 'quality.json', sample(10)
    known = {path: logistic_ap(path) for path in paths}
    errors = {path: 0.001 * at for at, path in enumerate(paths)}
    quality = PathQuality(known, weights_hash='abc', dataset='drive', errors=errors)
    quality.save(file)
    loaded = PathQuality.load(file, SPACE)
    second = json.loads(file.read_text())['paths'][str(paths[1])]
    assert second == {'ap': logistic_ap(paths[1]), 'ap_error': 0.001}
    assert (loaded.weights_hash, loaded.dataset, loaded.metric) == ('abc', 'drive', 'ap')
    assert (loaded.known, loaded.errors) == (quality.known, quality.errors)
    assert loaded.table(PATHS).tolist() == quality.table(PATHS).tolist()


def test_check_names_both_networks():
    quality = PathQuality({SPACE.largest: 0.5}, weights_hash='abc')
    quality.check('abc')
    with pytest.raises(QualityTableError, match="'abc', expected 'xyz'"):
        quality.check('xyz')


NAME = 's00-w1.00-p10-h0'


def table(name=NAME, **measured) -> str:
    """Of one path."""
    return json.dumps({'weights_hash': 'a', 'paths': {name: measured}})


@pytest.mark.parametrize(
    'content, message',
    [
        (None, 'quality.json cannot be read: .*No such file'),
        ('{', 'cannot be read'),
        ('[]', 'holds list, expected a JSON object'),
        ('{"weights_hash": "a"}', "lack 'paths'"),
        ('{"paths": {}}', "lack 'weights_hash'"),
        ('{"weights_hash": "a", "paths": {}}', '0 measured paths'),
        (table(ap50=0.3), "lack 'ap'"),
        (table(ap='x'), f"ap of path {NAME} is 'x'"),
        (table(ap=math.nan), 'is nan'),
        (table(ap=31), 'is 31'),
        (table(ap=0.3, ap_error=-1), f'standard error of path {NAME} is -1'),
        (table(ap=0.3, ap_error=None), 'is None'),
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


def test_a_value_without_an_error_is_taken_for_the_truth(tmp_path):
    file = tmp_path / 'quality.json'
    paths = {str(SPACE.largest): {'ap': 0.3}, str(SPACE.smallest): {'ap': 0.5}}
    file.write_text(json.dumps({'weights_hash': 'abc', 'paths': paths}))
    loaded = PathQuality.load(file, SPACE)
    assert loaded.errors == {SPACE.largest: 0.0, SPACE.smallest: 0.0} and loaded.trust == 1.0
    assert (loaded.quality(SPACE.largest), loaded.quality(SPACE.smallest)) == (0.3, 0.5)


def test_stand_in_grows_with_the_logarithm_of_time(make_forecast, foreign_path):
    forecast = make_forecast(SPACE, lambda name: 1.0 + 4.0 * name.startswith('stage1@w1'))
    quality = PathQuality.from_forecast(SPACE, forecast)
    order = np.argsort(forecast.table(PATHS), kind='stable')
    values = quality.table(PATHS)[order]
    assert (np.diff(values) >= 0).all() and values[0] == 0.0 and values[-1] == 1.0
    assert not quality.measured
    quality.check('any network')
    with pytest.raises(ValueError, match='forecast paths'):
        quality.quality(foreign_path)


def test_stand_in_ranks_no_path_below_a_smaller_one_that_was_measured_slow(make_forecast):
    space = space_of(0, widths=(1.0, 0.5, 0.25))
    slow = next(iter(space)).replace(width=0.25)
    forecast = make_forecast(space, lambda name: 9.0 if 'w0.25' in name else 1.0)
    assert forecast.forecast_ms(slow) > forecast.forecast_ms(space.largest)
    quality = PathQuality.from_forecast(space, forecast)
    assert quality.quality(space.largest) == max(quality.table(list(space)))


@pytest.mark.parametrize('single', [SINGLE, ONE_PATH])
def test_stand_in_of_one_path_is_the_best(make_forecast, single):
    quality = PathQuality.from_forecast(single, make_forecast(single, lambda name: 1.0))
    assert quality.quality(single.largest) == 1.0


def test_refuses_impossible_fits(foreign_path):
    with pytest.raises(ValueError, match='path whole is of another network'):
        MonotoneModel([SPACE.largest], [0.5]).predict([foreign_path])
    largest = SPACE.largest
    for known, errors, message in (
        (
            {largest: 0.5, foreign_path: 0.5},
            {},
            '2 measured paths, expected at least 1, all of one network',
        ),
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
    assert [quality.quality(path) for path in known] == pytest.approx(
        list(known.values()), abs=5e-3
    )
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


def test_stand_in_ranks_the_models_of_a_set_by_their_times(make_forecast):
    space = PathSpace(
        (Operator('model', MODEL, ('slow', 'quick'), 'm'),),
        (Segment('choose', 'pre', 'model'), Segment('body', 'body', None, ('model',))),
    )
    forecast = make_forecast(space, lambda name: 1.0 + 8.0 * name.endswith('mslow'))
    quality = PathQuality.from_forecast(space, forecast)
    assert [quality.quality(space.parse(name)) for name in ('mslow', 'mquick')] == [1.0, 0.0]
