from hypothesis import given
from hypothesis import strategies as st
from transition_pruning import transition_prune

from deadline_perception.extras.external_models.model_set.pruning import Candidate

candidates = st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.0, 1.0)), max_size=12).map(
    lambda rows: [Candidate(str(number), *row) for number, row in enumerate(rows)]
)


def names(candidates) -> list[str]:
    return [candidate.name for candidate in candidates]


def models(*rows: tuple[str, float, float]) -> list[Candidate]:
    return [Candidate(*row) for row in rows]


def test_transitions_that_gain_little_or_save_little_are_left_out():
    # Fig. 3: from 1 to 2 much accuracy for no time, from 4 to 5 much time for no accuracy. Slopes: 10, 0.5, 0.5, 0.05.
    given_models = models(
        ('1', 10.0, 40.0),
        ('2', 12.0, 60.0),
        ('3', 32.0, 70.0),
        ('4', 52.0, 80.0),
        ('5', 92.0, 82.0),
    )
    expected = ['2', '3', '4']
    assert names(transition_prune(given_models, least_slope=0.25, greatest_slope=1.5)) == expected
    assert names(transition_prune(given_models, least_slope=0.25)) == ['1', '2', '3', '4']
    assert names(transition_prune(given_models)) == ['1', '2', '3', '4', '5']


def test_slopes_are_calculated_anew_after_each_removal():
    # b to c has a slope of 0.2, too low: c goes. Then b to d has (24 - 20) / (40 - 20) = 0.2 as well: d goes. Were the
    # slopes of the first look kept, d would stay: c to d has 0.22.
    given_models = models(
        ('a', 10.0, 10.0), ('b', 20.0, 20.0), ('c', 30.0, 22.0), ('d', 39.0, 23.8)
    )
    assert names(transition_prune(given_models, least_slope=0.21)) == ['a', 'b']
    # And a removal can mend a transition: without b, a to c has a slope of 12 / 20 = 0.6, within the limits.
    mended = models(('a', 10.0, 10.0), ('b', 28.0, 11.0), ('c', 30.0, 22.0))
    assert names(transition_prune(mended, least_slope=0.25, greatest_slope=1.5)) == ['a', 'c']


@given(candidates, st.floats(0.0, 0.01), st.floats(0.02, 1.0))
def test_all_transitions_that_remain_lie_within_the_limits(found, least, greatest):
    kept = transition_prune(found, least_slope=least, greatest_slope=greatest)
    assert all(
        least <= (b.quality - a.quality) / (b.delay_ms - a.delay_ms) <= greatest
        for a, b in zip(kept, kept[1:])
    )
    assert bool(kept) == bool(found)
