"""A YOLO file and a detector of torchvision, adopted, as a detector node under a deadline."""

import shutil

import pytest
from deadline_perception.msg import FrameLatency, PathDecision, TimeBudget
from plain_images import noise
from sensor_msgs.msg import Image
from vision_msgs.msg import Detection2DArray

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures('network_settings')]


def test_the_model_follows_the_budget(
    adopted, tmp_path, monkeypatch, start_node, observer, wait_for, namespace
):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    shutil.copytree(adopted.folder, tmp_path / 'own')
    set_file = tmp_path / 'own' / 'sets' / 'set.yaml'
    # Random weights are all as bad; without qualities the slower model counts as the better one.
    set_file.with_name('set.quality.json').unlink()
    # Each image comes as soon as the one before is answered; to be in time for the next is not what is shown here.
    policy = 'deadline_perception.decision.frontier:FrontierPolicy'
    detector = start_node('detector', {'model': set_file, 'min_score': 0.01, 'policy': policy})
    results = observer.hear(Detection2DArray, f'{namespace}/detector/detections')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    decisions = observer.hear(PathDecision, f'{namespace}/detector/path')
    budget = observer.speaker(TimeBudget, f'{namespace}/time_budget/budget')
    camera = observer.speaker(Image, f'{namespace}/image')

    def show(budget_ms):
        number = len(latencies)
        limits = {'min_budget_ms': budget_ms, 'max_budget_ms': budget_ms}
        budget.publish(TimeBudget(budget_ms=budget_ms, **limits))
        camera.publish(observer.image(noise(60, 90)))
        wait_for(lambda: min(map(len, (latencies, decisions, results))) > number, detector.output)
        return decisions[-1].path, latencies[-1].outcome

    show(4000.0)  # the budget may be heard after its image
    assert {show(4000.0) for _ in range(3)} == {('mssdlite', FrameLatency.DETECTED)}
    # Too little for the larger model, at times for any; as fast as it then would be, it may run all the same.
    tight_ms = 0.6 * min(latency.network_ms for latency in latencies)
    assert ('myolo', FrameLatency.DETECTED) in [show(tight_ms) for _ in range(40)]
    tight = [decision for decision in decisions if decision.budget_ms == tight_ms]
    assert {decision.path for decision in tight} <= {'myolo', 'mssdlite', ''}
    larger = [decision for decision in tight if decision.path == 'mssdlite']
    assert all(decision.feasible and decision.bound_ms <= tight_ms for decision in larger)
    found = {one.results[0].hypothesis.class_id for result in results for one in result.detections}
    assert found and found <= {'vehicle', 'person'}
    assert detector.end() == 0, detector.output
