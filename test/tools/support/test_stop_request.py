import signal

import pytest

from deadline_perception.tools.support.stop_request import StopRequest


@pytest.mark.parametrize(('minutes', 'ends'), [(None, False), (1000.0, False), (1e-12, True)])
def test_only_its_time_ends_a_command(minutes, ends):
    stop = StopRequest(minutes)
    with stop.listening():
        assert stop() is ends
    assert stop.signal_number is None and stop.exit_status == 0


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_command_and_the_handlers_come_back(number):
    before = signal.getsignal(number)
    stop = StopRequest()
    with stop.listening():
        assert signal.getsignal(number) is not before
        signal.raise_signal(number)
        assert stop() and stop.exit_status == 128 + number
    assert signal.getsignal(number) is before


def test_second_interrupt_acts_as_ever():
    # ignored in a shell's background job
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stop = StopRequest()
        with pytest.raises(KeyboardInterrupt), stop.listening():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize('minutes', [0.0, -1.0, float('nan'), float('inf')])
def test_impossible_limits_are_refused(minutes):
    with pytest.raises(ValueError, match=f'minutes is {minutes}, expected a finite number above 0'):
        StopRequest(minutes)
