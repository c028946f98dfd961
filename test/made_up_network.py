"""Weights and profiles for tests that need a network but no good one."""

from dataclasses import replace

from latency_profiles import profile_of
from made_up_detector import TINY

from deadline_perception.core.device import DEFAULT_THREADS, process_environment, read_device_facts
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.timing.quantiles import Quantiles

CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
# The paths of `compact` at two sizes, of a quarter of its channels, on a fortieth of its pixels.
_PATHS = {name: getattr(COMPACT, name) for name in ('skip_groups', 'proposals', 'heads')}
NARROW = replace(TINY, name='narrow', **_PATHS)


def made_up_profile(detector, **changes):
    """Every segment takes 3 ms; measured as the nodes run it: one thread, with the settings of a start-up."""
    facts = replace(
        read_device_facts(environment=process_environment(DEFAULT_THREADS)), threads=DEFAULT_THREADS
    )
    times = Quantiles.from_samples([3.0] * 5)
    fields = {
        'segments': dict.fromkeys(detector.path_space.carriers(), times),
        'facts': facts,
        'config_name': detector.config_name,
        'network_hash': detector.network_hash,
        'input_size': detector.input_size,
        'image_size': (48, 64),
    }
    return profile_of(**fields | changes)


def write_network(folder):
    """Writes good.safetensors with random weights and its good.json into a folder; returns the network."""
    detector = build_detector(NARROW, CLASSES)
    save_detector(detector, folder / 'good.safetensors')
    made_up_profile(detector).save(folder / 'good.json')
    return detector
