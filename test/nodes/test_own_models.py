"""A YOLO file and a detector of torchvision, adopted, as detector nodes under a deadline."""

from __future__ import annotations

import math
import shutil

import pytest
from deadline_perception.msg import FrameLatency, PathDecision, TimeBudget
from plain_images import noise
from rclpy.qos import QoSProfile
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray, LabelInfo

from deadline_perception.extras.external_models.model_set.set_file import SetFile
from deadline_perception.nodes.service_quality import LATCHED
from deadline_perception.timing.profile import LatencyProfile

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]

IMAGE = noise(60, 90)


@pytest.fixture
def set_file(adopted, tmp_path, monkeypatch):
    """The set without its qualities: random weights are all as bad, and so the slower counts as the better."""
    assert adopted.run.returncode == 0, adopted.run.stderr
    (tmp_path / 'sets').mkdir()
    for file in ('set.yaml', 'set.profile.json'):
        shutil.copy(adopted.set_file.with_name(file), tmp_path / 'sets' / file)
    for model in SetFile.load(adopted.set_file).models:
        for file in model.file.parent.glob(f'{model.file.stem}.*'):  # OpenVINO's weights lie beside
            shutil.copy(file, tmp_path / file.name)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    return tmp_path / 'sets' / 'set.yaml'


def test_the_model_follows_the_budget(set_file, start_node, observer, wait_for, namespace):
    labels = observer.hear(LabelInfo, f'{namespace}/detector/label_info', LATCHED)
    # Each image comes as soon as the one before is answered; to be in time for the next is not what is shown here.
    detector = start_node(
        'detector',
        {
            'model': set_file,
            'min_score': 0.01,
            'policy': 'deadline_perception.decision.frontier:FrontierPolicy',
        },
    )
    results = observer.hear(Detection2DArray, f'{namespace}/detector/detections')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    decisions = observer.hear(PathDecision, f'{namespace}/detector/path')
    budget = observer.speaker(TimeBudget, f'{namespace}/time_budget/budget', QoSProfile(depth=5))
    camera = observer.speaker(Image, f'{namespace}/image')

    def show(budget_ms: float) -> None:
        number = len(latencies)
        budget.publish(
            TimeBudget(budget_ms=budget_ms, min_budget_ms=budget_ms, max_budget_ms=budget_ms)
        )
        wait_for(lambda: detector.process.poll() is None, detector.output)
        camera.publish(observer.image(IMAGE))
        wait_for(
            lambda: len(latencies) > number and len(decisions) > number and len(results) > number
        )

    show(4000.0)  # the budget may be heard after its image
    del decisions[:], latencies[:], results[:]
    for _ in range(3):
        show(4000.0)
    assert {(decision.path, decision.budget_ms) for decision in decisions} == {('mssdlite', 4000.0)}
    assert {latency.outcome for latency in latencies} == {FrameLatency.DETECTED}
    # Too little for the larger model, whatever the machine does meanwhile; at times too little for any.
    tight_ms = (
        0.6 * LatencyProfile.load(set_file.with_name('set.profile.json')).paths['mssdlite'].p50
    )
    until = len(decisions) + 40
    while not (decisions[-1].path == 'myolo' and latencies[-1].outcome == FrameLatency.DETECTED):
        assert len(decisions) < until, [(decision.path, decision.reason) for decision in decisions]
        show(tight_ms)
    assert all(
        decision.path in ('myolo', '') for decision in decisions if decision.budget_ms == tight_ms
    )
    for decision, latency in zip(decisions, latencies):
        if not decision.path:
            continue
        assert 0.0 < decision.forecast_ms < decision.bound_ms < 4000.0
        assert math.isfinite(latency.bound_ms)
        assert latency.bound_ms > latency.idle_forecast_ms > 0.0
    wait_for(lambda: labels, 'the class names')
    assert [entry.class_name for entry in labels[0].class_map] == ['vehicle', 'person']
    found = {
        detection.results[0].hypothesis.class_id
        for result in results[:3]
        for detection in result.detections
    }
    assert found and found <= {'vehicle', 'person'}
    assert detector.end() == 0, detector.output


def test_a_missing_file_of_a_set_is_named(set_file, start_node, observer):
    (set_file.parents[1] / 'yolo.xml').unlink()
    detector = start_node('detector', {'model': set_file})
    observer.wait_status('detector', 'yolo.xml does not exist, expected an exported detector')
    assert detector.end() == 0, detector.output
