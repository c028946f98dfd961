import signal

import pytest

from deadline_perception.tools.support.stop_request import StopRequest


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
