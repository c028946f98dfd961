"""Latency profiles in which a test says what it is about, and the device that they are of."""

from collections.abc import Mapping

from deadline_perception.core.device import DeviceFacts
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles

_SETTINGS = {'wait_policy': 'passive', 'allocator': 'retaining', 'power_mode': '15W'}
BOARD = DeviceFacts('Board', 'cpu', 4, 2, **_SETTINGS)


def profile_of(segments: Mapping[str, Quantiles], paths=None, **fields) -> LatencyProfile:
    """Of segments by their keys and whole paths by their names, with these fields of its own."""
    usual = {
        'facts': BOARD,
        'config_name': 'compact',
        'network_hash': 'abc',
        'input_size': (384, 640),
        'image_size': (380, 640),
        'date': '2026-01-02T03:04:05+00:00',
        'load_before': 0.0,
    }
    return LatencyProfile(segments=segments, paths=paths or {}, **usual | fields)
