"""Weights and profiles for tests that need a network but no good one."""

from __future__ import annotations

from dataclasses import replace

from made_up_detector import TINY

from deadline_perception.core.device import DEFAULT_THREADS, process_environment, read_device_facts
from deadline_perception.extras.faster_rcnn.configuration import COMPACT
from deadline_perception.extras.weights_writer import build_detector, save_detector
from deadline_perception.timing.profile import LatencyProfile
from deadline_perception.timing.quantiles import Quantiles

CLASSES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
# The paths of `compact` at two sizes, of a quarter of its channels, on a fortieth of its pixels.
NARROW = replace(
    TINY,
    name='narrow',
    skip_groups=COMPACT.skip_groups,
    proposals=COMPACT.proposals,
    heads=COMPACT.heads,
)


def made_up_profile(detector, **changes):
    """Every segment takes 3 ms; measured as the nodes run it: one thread, with the settings of a start-up."""
    facts = replace(
        read_device_facts(environment=process_environment(DEFAULT_THREADS)), threads=DEFAULT_THREADS
    )
    segments = {name: Quantiles.from_samples([3.0] * 5) for name in detector.path_space.carriers()}
    fields = {
        'facts': facts,
        'config_name': detector.config_name,
        'network_hash': detector.network_hash,
        'input_size': detector.input_size,
        'image_size': (48, 64),
        'date': '2025-01-01T00:00:00+00:00',
        'load_before': 0.0,
        'segments': segments,
        'paths': {},
    }
    return LatencyProfile(**{**fields, **changes})


def write_network(folder):
    """Writes good.safetensors with random weights and its good.json into a folder; returns the network."""
    detector = build_detector(NARROW, CLASSES)
    save_detector(detector, folder / 'good.safetensors')
    made_up_profile(detector).save(folder / 'good.json')
    return detector
