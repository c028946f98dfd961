import pytest
from made_up_candidates import models, names

from deadline_perception.extras.external_models.model_set.pruning import (
    Candidate,
    contention_prune,
    memory_prune,
    pareto_prune,
    paths_to_keep,
)


def test_models_that_another_beats_in_both_are_left_out_and_the_best_at_each_level_kept():
    # As in Fig. 2 of the contention paper: a frontier, and inferior models below and to the right of it.
    delays = (20, 10, 25, 40, 40, 60, 80)
    qualities = (60, 50, 55, 70, 65, 70, 75)
    given_models = models(*zip('abcdefg', delays, qualities))
    assert names(pareto_prune(given_models)) == ['b', 'a', 'd', 'g']
    # Of equal models the first stays.
    assert names(pareto_prune(models(('first', 10.0, 0.5), ('second', 10.0, 0.5)))) == ['first']
    # Levels of 1, 2 and 4 times the idle delay, and 40 ms: of 40, 20 and 10 ms at most the best; slow is none's.
    named = ('slow', 'best', 'good', 'fair', 'fast')
    candidates = models(*zip(named, (41.0, 40.0, 19.0, 15.0, 10.0), (0.1, 0.6, 0.5, 0.3, 0.2)))
    assert paths_to_keep(candidates, 3) == ('fast', 'good', 'best')
    assert paths_to_keep(candidates, 1) == ('best',) and len(paths_to_keep(candidates, 50)) == 4


def test_one_model_is_kept_per_contention_level():
    # Fig. 4: seven models at five levels under 100 ms. 6 is too slow everywhere, 0 never the best, 3 only between two
    # levels;
    # 4 is the best at two of them.
    given_models = models(*((str(number), 10.0 + number, 10.0 * number) for number in range(7)))
    delays = {
        '0': (10, 15, 20, 30, 50),
        '1': (20, 30, 40, 60, 95),
        '2': (30, 42, 60, 97, 150),
        '3': (40, 55, 80, 120, 190),
        '4': (60, 80, 98, 160, 240),
        '5': (90, 110, 130, 200, 300),
        '6': (110, 140, 170, 250, 400),
    }
    assert names(contention_prune(given_models, delays, 100.0)) == ['1', '2', '4', '5']
    two = {name: row[1:3] for name, row in delays.items()}
    assert names(contention_prune(given_models, two, 100.0)) == ['4']


def test_memory_keeps_the_fastest_and_then_the_best():
    given_models = [
        Candidate('fast', 10.0, 0.1, 100.0),
        Candidate('middle', 20.0, 0.3, 250.0),
        Candidate('best', 30.0, 0.5, 300.0),
        Candidate('small', 15.0, 0.2, 50.0),
    ]
    assert names(memory_prune(given_models, 500.0)) == ['fast', 'small', 'best']
    assert names(memory_prune(given_models, 1000.0)) == ['fast', 'small', 'middle', 'best']
    assert memory_prune([], 10.0) == ()
    with pytest.raises(ValueError, match='fast, the fastest, takes 100 MB of memory.*99 MB'):
        memory_prune(given_models, 99.0)
