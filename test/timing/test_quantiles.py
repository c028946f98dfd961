from deadline_perception.timing.quantiles import Quantiles


def test_quantiles_of_101_durations_are_hand_computable():
    times = Quantiles.from_samples([float(value) for value in range(101)])
    assert times.values_ms == (5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 100.0)
    assert times.count == 101
