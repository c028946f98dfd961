"""What model_selection.py makes of recorded delays, with delays made up by hand."""
from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture(scope='module')
def replay(load_benchmark):
    return load_benchmark('selection_replay')


@pytest.fixture
def recording(replay):
    """Two models that take 10 and 20 ms, half as long again beside one contender and thrice as long beside another."""
    delays = np.zeros((3, 8, 2))
    for level, factor in enumerate((1.0, 1.5, 3.0)):
        delays[level] = np.array([10.0, 20.0]) * factor * (1.0 + 0.01 * np.arange(8)[:, None])
    return replay.Recording(('small', 'large'), (20.0, 40.0), ({}, {'radar': 1}, {'lidar': 1}), delays, {})


def terms(replay, threshold_ms):
    idle = {'small': 10.0, 'large': 20.0}
    return replay.Terms({'small': 20.0, 'large': 40.0}, idle, threshold_ms, {}, 0)


def test_reactive_methods_climb_and_descend_by_the_last_delay(replay):
    trace = np.array([[10.0, 20.0], [10.0, 20.0], [10.0, 40.0], [10.0, 20.0]])
    known = terms(replay, 25.0)
    outcome = replay.replay(replay.METHODS['1-step reactive'](known), ('small', 'large'), trace, known)
    # small, large, large (late), small
    assert (outcome.ap, outcome.violations, outcome.switches, outcome.most_late) == (30.0, 25.0, 50.0, 1)
    assert outcome.unavoidable == 0.0 and np.isnan(outcome.bound_misses) and outcome.decision_us > 0.0


def test_a_predictor_that_knows_the_next_delay_is_never_late(replay):
    trace = np.array([[10.0, 20.0], [20.0, 40.0], [10.0, 20.0]] * 50)

    class Clairvoyant:
        frame = 0

        def predict_ms(self, model):
            return float(trace[self.frame, ('small', 'large').index(model)])

        def observe(self, model, delay_ms):
            self.frame += 1

    known = terms(replay, 25.0)
    outcome = replay.replay(replay.Predicting(Clairvoyant(), known, calibrated=False), ('small', 'large'), trace, known)
    assert (outcome.violations, outcome.bound_misses, outcome.ap) == (0.0, 0.0, pytest.approx(100.0 / 3.0))


def test_oracles_take_what_pays_with_what_they_know(replay, recording):
    found = replay.compare(recording, {name: replay.METHODS[name] for name in ('clairvoyant', 'knows the level')},
                           threshold_ms=21.3, seeds=1, frames=2000)
    clairvoyant, level = (found[name][0] for name in ('clairvoyant', 'knows the level'))
    # Of the rounds that are replayed, the large model is in time idle in two of four, the small one always but beside
    # LiDAR.
    assert clairvoyant.violations == level.violations == level.unavoidable == clairvoyant.unavoidable > 0.0
    assert clairvoyant.ap > level.ap > 20.0  # who is late anyway may as well take the better model
    assert clairvoyant.ap_in_time == pytest.approx(
        clairvoyant.ap - 0.01 * clairvoyant.violations * 40.0)
    cheap = replay.compare(recording, {'cheap': lambda terms: replay.Oracle(terms, 1.0, clairvoyant=True)},
                           threshold_ms=21.3, seeds=1, frames=2000)['cheap'][0]
    assert cheap.ap == 40.0 and cheap.violations > 50.0


def test_the_cost_of_a_late_frame_decides_how_daring_ours_is(replay, recording):
    methods = {str(cost): lambda terms, cost=cost: replay.OursByUtility(terms, cost) for cost in (0.0, 50.0, 100.0)}
    found = {name: outcomes[0] for name, outcomes in replay.compare(recording, methods, threshold_ms=35.0, seeds=1,
                                                                    frames=2000).items()}
    assert found['0.0'].ap == 40.0
    assert found['0.0'].violations > found['50.0'].violations >= found['100.0'].violations
    assert found['0.0'].ap_in_time < found['50.0'].ap_in_time


def test_the_bound_holds_for_every_predictor_a_wrong_one_too(replay, recording):
    found = replay.compare(recording, {name: replay.METHODS[name] for name in replay.BOUNDED}, threshold_ms=35.0,
                           seeds=2, frames=3000)
    for name, outcomes in found.items():
        for outcome in outcomes:
            # The guarantee of BoundCalibrator: alpha, and (width + step) / (step * frames), in percent.
            least_factor = np.log(8.0) if name != 'wrong, bounded' else np.log(64.0)
            assert outcome.bound_misses <= 1.0 + 100.0 * (2 * least_factor + 0.05) / (0.05 * 3000), name
            allowed = 1.0 + 100.0 * (2 * least_factor + 0.05) / (0.05 * 3000)
            assert outcome.violations - outcome.unavoidable <= allowed, name
    ours, wrong = (np.mean([outcome.ap for outcome in found[name]]) for name in ('ours', 'wrong, bounded'))
    assert ours > wrong


def test_a_trace_leaves_a_contender_and_rounds_out(replay, recording):
    trace = replay.make_trace(recording, 500, 0, rounds=range(4), without='lidar')
    assert trace.shape == (500, 2) and trace.max() <= 20.0 * 1.5 * 1.03 + 1e-9
    assert np.array_equal(trace, replay.make_trace(recording, 500, 0, rounds=range(4), without='lidar'))
    assert replay.make_trace(recording, 500, 0, rounds=range(4, 8)).max() > 60.0


def test_a_recording_is_read_back_and_reduced(replay, recording, tmp_path):
    recording.save(tmp_path / 'recording.json')
    back = replay.Recording.load(tmp_path / 'recording.json')
    assert back.models == recording.models and back.levels == recording.levels
    assert np.allclose(back.delays_ms, recording.delays_ms, atol=1e-3)
    assert back.only(['large']).idle_ms == {'large': pytest.approx(20.7)}


def test_models_are_pruned_by_what_they_do_at_each_level(load_benchmark, replay, recording):
    model_selection = load_benchmark('model_selection')
    sets = model_selection.pruned_sets(recording, 25.0)
    assert sets['all'] == sets['Pareto-pruned'] == ('small', 'large')
    assert model_selection.pruned_sets(recording, 100.0)['final'] == ('large',)
    assert model_selection.chosen_threshold(recording, 1.0) == pytest.approx(35.3)
    levels = model_selection.level_list(12)
    assert levels[0] == {} and len({tuple(sorted(level.items())) for level in levels}) == 12
