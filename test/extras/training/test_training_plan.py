import pytest

from deadline_perception.extras.training.training_plan import TrainingPlan


@pytest.mark.parametrize(
    'change, message',
    [
        ({'steps': 0}, 'steps is 0'),
        ({'learning_rate': float('nan')}, 'learning_rate is nan'),
        ({'weight_decay': -0.1}, 'weight_decay is -0.1'),
        ({'warm_up': -1}, 'warm_up is -1 steps'),
        ({'ema': 1.0}, 'ema is 1.0'),
        ({'crop_share': 1.5}, 'crop_share is 1.5'),
        ({'crop': (32, 40)}, r'size is \(32, 40\) px'),
    ],
)
def test_impossible_plans_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        TrainingPlan(**{'steps': 1, **change})


def test_rate_warms_up_and_decays():
    plan = TrainingPlan(steps=100, warm_up=10, learning_rate=1.0)
    rates = [plan.rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and max(rates) == pytest.approx(1.0) and rates[-1] < 0.02
    assert rates[10:] == sorted(rates[10:], reverse=True)
