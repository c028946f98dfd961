import pytest
from deadline_perception.msg import FrameLatency, PathDecision
from invented_networks import make_classifier
from plain_images import noise
from sensor_msgs.msg import Image
from vision_msgs.msg import Classification

from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.timing.profile import measure_profile

IMAGES = 12


@pytest.mark.slow
@pytest.mark.usefixtures('network_settings')
def test_an_invented_network_runs_from_profile_to_report(
    start_node, observer, wait_for, repeat, namespace, tmp_path
):
    network, image = make_classifier(), noise(48, 64)
    measure_profile(network, [image], repeats=8, whole_paths=4, path_repeats=4).save(
        tmp_path / 'profile.json'
    )
    given = {'profile': tmp_path / 'profile.json', 'default_budget_ms': 2000.0}
    detector = start_node('detector', {'model': 'invented_networks:make_classifier', **given})
    recorder = start_node('bag_recorder', {'output': tmp_path / 'run.mcap'})
    results = observer.hear(Classification, f'{namespace}/detector/classification')
    latencies = observer.hear(FrameLatency, f'{namespace}/detector/latency')
    decisions = observer.hear(PathDecision, f'{namespace}/detector/path')

    def is_recorded(topic):
        values = observer.status('bag_recorder')[2]
        return int(values.get(f'messages {namespace}/detector/{topic}', 0)) >= IMAGES

    camera = observer.speaker(Image, f'{namespace}/image')
    at_work = repeat(lambda: camera.publish(observer.image(image)), 0.1)
    wait_for(lambda: is_recorded('path') and is_recorded('latency'), 'the answers')
    wait_for(lambda: min(map(len, (latencies, decisions, results))) >= IMAGES, 'the answers')
    at_work.stop()
    assert {latency.outcome for latency in latencies} == {FrameLatency.DETECTED}
    assert [phase.name for phase in latencies[-1].phases] == list(network.path_space.phases)
    kinds = {operator.name: operator.kind for operator in network.path_space.operators}
    for decision in decisions:
        told = {operator.name: operator.kind for operator in decision.operators}
        assert told == kinds and network.path_space.parse(decision.path)
    assert results[0].results[0].class_id == 'dog'

    assert detector.end() == 0, detector.output
    assert recorder.end() == 0, recorder.output
    summary = write_report(read_recording(tmp_path / 'run.mcap'), tmp_path / 'report')
    assert summary['frames_delivered'] >= IMAGES and summary['distinct_paths'] >= 1
