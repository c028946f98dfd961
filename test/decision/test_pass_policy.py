import math
from types import SimpleNamespace

import numpy as np
import pytest
from fresh_bounds import fresh_bound
from hypothesis import given
from hypothesis import strategies as st

from deadline_perception.core.execution_path import SKIP, Operator, PathSpace, Segment
from deadline_perception.decision.pass_policy import PassPolicy
from deadline_perception.decision.pass_quality import PassQuality
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.timing.path_bound import SegmentForecast
from deadline_perception.timing.time_model import TimeModel

# A first look of 5 ms, then a closer one of 10 ms and of 10 more where its skip runs; or the closer one alone.
SPACE = PathSpace(
    (
        Operator('coarse', 'pass', ('none', 'run'), 'c', unnamed=0),
        Operator('fine', 'pass', ('none', 'run'), 'a', ('lone', 'll'), unnamed=1),
        Operator('deep', SKIP, ('skip', 'run'), 's', ('1', '0')),
    ),
    (
        Segment('coarse', 'coarse', 'coarse', ('coarse',), keys={'run': 'coarse'}, result='coarse'),
        Segment('fine', 'pre', 'fine', only_on=('coarse', 'run'), keys={}),
        Segment('body', 'conv', only_on=('fine', 'run')),
        Segment('deep', 'conv', 'deep', only_on=('fine', 'run')),
        Segment('end', 'post', only_on=('fine', 'run'), result='fine'),
    ),
)
COST_MS = {'coarse': 5.0, 'body': 9.0, 'deep': 10.0, 'end': 1.0}
TIMES = SegmentForecast(SPACE, COST_MS)
QUALITY = {'crun-alone': 0.3, 'crun-s1': 0.45, 'crun-s0': 0.55, 's1': 0.4, 's0': 0.5}
FACTOR = 1.3  # bound over the forecast


class Qualities:
    def quality(self, path):
        return QUALITY[str(path)]

    def table(self, paths):
        return np.array([self.quality(path) for path in paths])


class QualitiesBySize(Qualities, PassQuality):
    """The same in a scene of large and small objects; the deep path is worse at one of these."""

    scene = SimpleNamespace(weights=np.array([0.5, 0.5]), followers=[])

    def __init__(self):
        pass

    def by_size(self, paths):
        deep = np.array([path['deep'] == 'run' for path in paths]) * 0.2
        return self.table(paths)[:, None] + deep[:, None] * [1.0, -1.0]


@pytest.fixture(scope='module', params=[Qualities, QualitiesBySize])
def policy(request):
    made = PassPolicy(SPACE, TIMES, request.param())
    made.prepare()
    return made


def chance(remaining_ms, forecast_ms):
    deviation = 0.15
    median = math.log(FACTOR) - 2.326 * deviation
    ratio = (math.log(remaining_ms / forecast_ms) - median) / deviation
    return 0.5 * math.erfc(-ratio / math.sqrt(2.0))


def chance_of_more(remaining_ms, forecast_ms):
    found = chance(remaining_ms, forecast_ms)
    return found if found >= 0.5 else 0.0


@pytest.mark.parametrize(
    ('remaining_ms', 'path'),
    list(zip((math.inf, 100.0, 20.0, 15.0, 6.6), ('s0', 's0', 's1', 's1', 'alone'))),
)
def test_takes_as_many_passes_as_are_worth_their_time(policy, remaining_ms, path):
    choice = policy.plan(remaining_ms, FACTOR)
    path = f'crun-{path}'
    assert choice.feasible and choice.bound_ms == pytest.approx(5.0 * FACTOR)
    assert choice.quality == pytest.approx(QUALITY[str(choice.path)])
    if path == 'crun-alone':  # nothing of a second look is done in 1.6 ms
        assert policy.redecide(choice.path, 1, 1.0, FACTOR, 5.0).path == SPACE.parse(path)
    else:
        assert choice.path == SPACE.parse(path)


@given(st.floats(6.5, 60.0))
def test_no_path_with_a_mandatory_part_that_fits_is_expected_to_be_better(remaining_ms):
    policy = PassPolicy(SPACE, TIMES, Qualities(), keep_epsilon=0.0)

    def expected(path):
        of_all = chance(remaining_ms, TIMES.forecast_ms(path))
        if path['coarse'] == 'none':
            return of_all * QUALITY[str(path)]
        of_both = chance_of_more(remaining_ms, TIMES.forecast_ms(path))
        gain = QUALITY[str(path)] - QUALITY['crun-alone']
        return chance(remaining_ms, 5.0) * QUALITY['crun-alone'] + of_both * gain

    def fits(path):
        mandatory_ms = 5.0 if path['coarse'] == 'run' else TIMES.forecast_ms(path)
        return mandatory_ms * FACTOR <= remaining_ms

    choice = policy.plan(remaining_ms, FACTOR)
    assert choice.feasible
    best = max(expected(path) for path in SPACE if fits(path))
    assert expected(choice.path) == pytest.approx(best) or choice.path['coarse'] == 'none'


def test_of_second_looks_none_is_planned_that_is_less_likely_than_not_to_be_in_time():
    paths = [SPACE.parse(name) for name in ('crun-s0', 'crun-s1', 'crun-alone')]
    policy = PassPolicy(SPACE, TIMES, Qualities(), paths=paths)
    deep_ms = TIMES.forecast_ms(paths[0])
    for remaining_ms in np.linspace(8.0, 1.3 * deep_ms, 60):
        path = policy.plan(remaining_ms, FACTOR).path
        assert path['fine'] == 'none' or chance(remaining_ms, TIMES.forecast_ms(path)) >= 0.5
        after = policy.redecide(paths[0], 1, remaining_ms - 5.0, FACTOR, 5.0).path
        rest_ms = TIMES.forecast_ms(after, 1)
        assert after['fine'] == 'none' or chance(remaining_ms - 5.0, rest_ms) >= 0.5


def test_after_a_result_so_far_the_rest_is_begun_though_its_bound_does_not_fit(policy):
    path, bound_ms = SPACE.parse('crun-s1'), 10.0 * FACTOR
    choice = policy.redecide(path, 1, 11.0, FACTOR, 5.0)
    assert choice.path['fine'] == 'run' and not choice.feasible
    assert choice.bound_ms == pytest.approx(bound_ms)
    assert policy.redecide(path, 1, -1.0, FACTOR, 5.0).path == SPACE.parse('crun-alone')
    assert policy.redecide(path, 1, bound_ms, FACTOR, 5.0).feasible  # exactly the time left fits
    assert not policy.redecide(path, 1, math.nextafter(bound_ms, 0), FACTOR, 5.0).feasible


@pytest.mark.parametrize('remaining_ms', [6.0, 4.6, 4.4, 1e-3, 0.0, -5.0])  # of a bound of 6.5 ms
def test_an_infeasible_frame_runs_what_has_an_even_chance_or_the_shortest(policy, remaining_ms):
    """A longer path gained next to nothing, and was aborted at once where this one fitted."""
    choice = policy.plan(remaining_ms, FACTOR)
    assert not choice.feasible and choice.path == SPACE.parse('crun-alone')


@pytest.mark.parametrize('name', ['s1', 'crun-s0'])
def test_a_path_that_alone_is_kept_ready_is_taken_with_its_quality(name):
    path = SPACE.parse(name)
    choice = PassPolicy(SPACE, TIMES, Qualities(), paths=[path]).plan(50.0, FACTOR)
    assert (choice.path, choice.forecast_ms) == (path, TIMES.forecast_ms(path))
    assert choice.feasible and choice.quality == pytest.approx(QUALITY[name])
    with pytest.raises(ValueError, match='declares no result'):
        PassPolicy(PathSpace((), (Segment('all', 'all'),)), TIMES, Qualities())


def test_a_decision_right_after_the_plan_is_the_plan_and_a_later_one_is_made_anew(policy):
    choice = policy.plan(100.0, FACTOR)
    assert policy.redecide(choice.path, 0, 99.9, FACTOR, 0.1) is choice
    late = policy.redecide(choice.path, 0, 18.0, FACTOR, 82.0)
    assert late is not choice and late.path != choice.path


@pytest.mark.parametrize('quality', [Qualities, QualitiesBySize])
@given(remaining_ms=st.floats(0.5, 40.0))
def test_after_a_result_so_far_no_path_is_expected_to_add_more(quality, remaining_ms):
    policy = PassPolicy(SPACE, TIMES, quality(), keep_epsilon=0.0)
    planned = SPACE.parse('crun-s1')
    choice = policy.redecide(planned, 1, remaining_ms, FACTOR, 5.0)

    def added(path):
        rest_ms = TIMES.forecast_ms(path, 1)
        sure = rest_ms == 0.0
        gain = QUALITY[str(path)] - QUALITY['crun-alone']
        return gain * (1.0 if sure else chance_of_more(remaining_ms, rest_ms))

    best = max(added(path) for path in SPACE if path['coarse'] == 'run')
    assert added(choice.path) == pytest.approx(best, abs=2e-4)


@given(
    large=st.floats(0.0, 1.0),
    remaining_ms=st.floats(0.5, 60.0),
    epsilon=st.sampled_from([0.0, 0.03, 1.0]),
    planned=st.sampled_from([('crun-s1', 1), ('crun-s0', 1), ('s1', 2), ('s0', 2), ('s1', 3)]),
    ratios=st.lists(st.floats(0.8, 2.0), max_size=40),
)
def test_a_path_is_not_looked_at_only_where_it_cannot_be_better(
    large, remaining_ms, epsilon, planned, ratios
):
    (name, segment), choices = planned, []
    for looks_at_all in (False, True):
        policy, times = followed([], keep_epsilon=epsilon, quality=QualitiesBySize)
        policy._weigh(np.array([large, 1.0 - large]))
        for ratio in ratios:
            times.part(segment).observe(10.0, 10.0 * ratio)
        if looks_at_all:
            policy._tops = [math.inf] * len(policy._tops)
        path = SPACE.parse(name)
        redecided = policy.redecide(path, segment, remaining_ms, FACTOR, 0.0)
        choices.append((policy.plan(remaining_ms, FACTOR), redecided))
    assert choices[0] == choices[1]


def test_a_plan_goes_by_the_newest_scene_and_no_earlier_plan_is_kept():
    quality = QualitiesBySize()
    quality.scene = SimpleNamespace(weights=np.array([0.0, 1.0]), followers=[])
    policy = PassPolicy(SPACE, TIMES, quality)
    small = policy.plan(100.0, FACTOR)
    assert small.path == SPACE.parse('crun-s1')
    for renew in quality.scene.followers:
        renew(np.array([1.0, 0.0]))
    large = policy.redecide(small.path, 0, 100.0, FACTOR, 0.0)
    assert large.path == SPACE.parse('crun-s0') and large.quality == pytest.approx(0.75)


def test_a_second_look_that_adds_nothing_is_not_taken(monkeypatch):
    for name in ('crun-s1', 'crun-s0'):
        monkeypatch.setitem(QUALITY, name, QUALITY['crun-alone'])
    paths = [first, deep] = [SPACE.parse('crun-alone'), SPACE.parse('crun-s0')]
    policy = PassPolicy(SPACE, TIMES, Qualities(), paths=paths)
    assert policy.plan(100.0, FACTOR).path == first
    assert policy.redecide(deep, 1, 100.0, FACTOR, 5.0).path == first


def followed(ratios, *, keep_epsilon=0.005, quality=Qualities):
    """A policy whose time model has seen frames that took so many times what was forecast."""
    policy = PassPolicy(SPACE, TIMES, quality(), keep_epsilon=keep_epsilon)
    times = TimeModel(SPACE, TIMES, fresh_bound())
    for ratio in ratios:
        times.whole.observe(10.0, 10.0 * ratio)
    policy.learn_from(times)
    return policy, times


def test_chances_are_those_of_the_frames_that_were_seen():
    policy, times = followed([1.0, 1.01, 0.99, 2.0] * 50 + [1.0] * 5)
    bound = times.begin(1.0)
    assert bound.interruption_ms == 0.0  # though every fourth frame was interrupted
    remaining_ms = 25.0 * 1.2  # the deep path takes 25: three of four make it
    left = policy._time_left(0, remaining_ms, bound.factor)
    shares = [left.frames.share_within(left.first - math.log(ms)) for ms in (25.0, 5.0)]
    assert shares == pytest.approx([0.75, 1.0], abs=0.01)
    lead_ms = times.reserve.lead_ms  # a later result is cut off so much earlier
    assert lead_ms == 2.5
    without_lead = policy._time_left(0, remaining_ms - lead_ms, bound.factor).first
    assert left.later == pytest.approx(without_lead)


def test_a_frame_that_runs_goes_on_without_its_bound_where_it_is_likely_to_be_in_time():
    policy, times = followed([])
    deep = next(at for at, one in enumerate(SPACE.segments) if one.name == 'deep')
    rest = times.part(deep)
    for ratio in np.random.default_rng(0).uniform(0.85, 1.1, 200):
        rest.observe(10.0, 10.0 * ratio)
    path, left_ms = SPACE.parse('s0'), 11.0 * 1.15
    assert 11.0 * rest.factor > left_ms
    assert policy.redecide(path, deep, left_ms, rest.factor, 9.0).path == path
    assert policy.redecide(path, deep, 11.0 * 0.95, rest.factor, 9.0).path == SPACE.parse('s1')


def test_a_second_look_is_planned_as_it_goes_beside_the_first_under_any_load():
    policy, model = followed([])
    looks = {'crun-alone': (2.5, 0.0, 0.0), 's1': (0.0, 0.0, 10.0)}
    for number, name in enumerate(12 * list(looks)):
        job = Job('message', 0.0, StampReading(0.0, '', 0))
        job.times, job.path, job.result = model.begin(1.0), SPACE.parse(name), 'found'
        for ms in looks[name]:
            job.leave('phase', ms * (3.0 if number > 12 else 1.0))
        model.observe(job)
    assert model.forecast.table(list(map(SPACE.parse, looks))) == pytest.approx([5.0, 20.0])
    assert policy.plan(math.inf, FACTOR).forecast_ms == pytest.approx(5.0 + 2.0 * 20.0)
