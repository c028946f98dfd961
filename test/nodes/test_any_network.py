"""Networks that the package has never heard of, from profile to report, through real nodes."""

from __future__ import annotations

import time

import pytest
from deadline_perception.msg import FrameLatency, PathDecision, TimeBudget
from invented_networks import make_classifier, make_magnifier
from plain_images import noise
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from vision_msgs.msg import Classification, Detection2DArray

from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.profile import LatencyProfile, measure_profile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]

IMAGES = 12


@pytest.mark.parametrize(
    'make, topic, kind',
    [
        (make_magnifier, 'detections', Detection2DArray),
        (make_classifier, 'classification', Classification),
    ],
)
def test_an_invented_network_runs_from_profile_to_report(
    make, topic, kind, start_node, observer, wait_for, namespace, tmp_path
):
    network, image = make(), noise(48, 64)
    measure_profile(network, [image], repeats=8, whole_paths=4, path_repeats=4).save(
        tmp_path / 'profile.json'
    )
    profile = LatencyProfile.load(tmp_path / 'profile.json')
    forecast = PathForecast(profile, network.path_space)
    quality = PathQuality.from_forecast(network.path_space, forecast)
    best = FrontierPolicy(network.path_space, forecast, quality).starts()
    assert best[-1][2] == 1.0 and set(profile.segments) == set(network.path_space.carriers())

    # The first image may be there before the first budget.
    detector = start_node(
        'detector',
        {
            'model': f'invented_networks:{make.__name__}',
            'profile': tmp_path / 'profile.json',
            'default_budget_ms': 2000.0,
        },
    )
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    results = observer.hear(kind, f'{namespace}/detector/{topic}')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    decisions = observer.hear(PathDecision, f'{namespace}/detector/path')
    budget = observer.speaker(TimeBudget, f'{namespace}/time_budget/budget', QoSProfile(depth=5))

    def is_recorded(topic):
        values = observer.status('bag_recorder')[2]
        return int(values.get(f'messages {namespace}/detector/{topic}', 0)) >= IMAGES

    camera = observer.speaker(Image, f'{namespace}/image')

    number = 0
    while number < IMAGES or not is_recorded('path') or not is_recorded('latency'):
        budget.publish(TimeBudget(budget_ms=2000.0, min_budget_ms=2000.0, max_budget_ms=2000.0))
        camera.publish(observer.image(image))
        sent_s = time.monotonic()

        def answered():
            nonlocal sent_s
            if time.monotonic() > sent_s + 10.0:  # the first ones, before all have found each other
                camera.publish(observer.image(image))
                sent_s = time.monotonic()
            return min(map(len, (latencies, decisions, results))) > number

        wait_for(answered, f'answer {number}: {detector.output}')
        number += 1
    assert {latency.outcome for latency in latencies} == {FrameLatency.DETECTED}
    assert [phase.name for phase in latencies[-1].phases] == list(network.path_space.phases)
    operators = network.path_space.operators
    kinds = {operator.name: operator.kind for operator in operators}
    for decision in decisions:
        told = {operator.name: operator.kind for operator in decision.operators}
        assert told == kinds and network.path_space.parse(decision.path)
    first = (
        results[0].results[0]
        if kind is Classification
        else results[0].detections[0].results[0].hypothesis
    )
    assert first.class_id == ('dog' if kind is Classification else 'thing')

    assert detector.end() == 0, detector.output
    assert recorder.end() == 0, recorder.output
    recording = read_recording(tmp_path / 'run.mcap')
    summary = write_report(recording, tmp_path / 'report')
    assert summary['frames_delivered'] >= IMAGES and summary['distinct_paths'] >= 1
    page = (tmp_path / 'report' / 'report.html').read_text()
    assert all(operator.name in page for operator in operators)
    assert all(f'network: {phase}' in page for phase in network.path_space.phases)
