from made_up_candidates import models, names
from transition_pruning import transition_prune


def test_transitions_that_gain_little_or_save_little_are_left_out():
    # Fig. 3: from 1 to 2 much accuracy for no time, from 4 to 5 much time for no accuracy. Slopes: 10, 0.5, 0.5, 0.05.
    delays = (10.0, 12.0, 32.0, 52.0, 92.0)
    given_models = models(*zip('12345', delays, (40.0, 60.0, 70.0, 80.0, 82.0)))
    expected = ['2', '3', '4']
    assert names(transition_prune(given_models, least_slope=0.25, greatest_slope=1.5)) == expected
    assert names(transition_prune(given_models, least_slope=0.25)) == ['1', '2', '3', '4']
    assert names(transition_prune(given_models)) == ['1', '2', '3', '4', '5']


def test_slopes_are_calculated_anew_after_each_removal():
    # b to c has a slope of 0.2, too low: c goes. Then b to d has (24 - 20) / (40 - 20) = 0.2 as well: d goes. Were the
    # slopes of the first look kept, d would stay: c to d has 0.22.
    given_models = models(*zip('abcd', (10.0, 20.0, 30.0, 39.0), (10.0, 20.0, 22.0, 23.8)))
    assert names(transition_prune(given_models, least_slope=0.21)) == ['a', 'b']
    # And a removal can mend a transition: without b, a to c has a slope of 12 / 20 = 0.6, within the limits.
    mended = models(('a', 10.0, 10.0), ('b', 28.0, 11.0), ('c', 30.0, 22.0))
    assert names(transition_prune(mended, least_slope=0.25, greatest_slope=1.5)) == ['a', 'c']
