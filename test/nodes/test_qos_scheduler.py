from collections import Counter

import pytest
import yaml
from deadline_perception.msg import ContentionState, JobReport, Schedule
from hanging_network import FLAG, NAN_FLAG
from hanging_network import make as make_hanging
from invented_networks import make_classifier, make_magnifier
from made_up_network import made_up_profile
from plain_images import noise
from sensor_msgs.msg import Image
from vision_msgs.msg import Classification, Detection2DArray

from deadline_perception.nodes.service_quality import LATCHED, RESULTS
from deadline_perception.timing.contention.slowdown import MAX_SLOWDOWN

pytestmark = pytest.mark.usefixtures('network_settings')
PIXELS = noise(48, 64)


def task(folder, make, **fields):
    """Of a task file, with a profile by which every segment takes 3 ms."""
    profile = folder / f'{make.__name__}.json'
    made_up_profile(make()).save(profile)
    return {'model': f'{make.__module__}:{make.__name__}', 'profile': str(profile), **fields}


def write_tasks(folder, **tasks):
    file = folder / 'tasks.yaml'
    file.write_text(yaml.safe_dump({'tasks': tasks}, sort_keys=False))
    return file


@pytest.fixture
def start_camera(observer, repeat):
    """Publishes images to topics, until the camera is stopped."""

    def start(*topics):
        cameras = [observer.speaker(Image, topic) for topic in topics]
        return repeat(lambda: [camera.publish(observer.image(PIXELS)) for camera in cameras])

    return start


@pytest.mark.slow
def test_two_networks_and_one_of_crops_share_a_device_and_follow_what_changes(
    start_node, observer, wait_for, namespace, tmp_path, start_camera
):
    periods = 120, 240, 480
    tasks = write_tasks(
        tmp_path,
        front=task(tmp_path, make_magnifier, image_topic='front', periods_ms=[*periods]),
        side=task(tmp_path, make_classifier, image_topic='side', weight=0.5, periods_ms=[*periods]),
        closer=task(tmp_path, make_classifier, crops_of='front', periods_ms=[480]),
    )
    scheduler = f'{namespace}/qos_scheduler'
    node = start_node('qos_scheduler', {'tasks': tasks, 'priority': "'off'"})
    schedules = observer.hear(Schedule, f'{scheduler}/schedule', LATCHED)
    jobs = observer.hear(JobReport, f'{scheduler}/jobs')
    found = observer.hear(Detection2DArray, f'{scheduler}/front/detections')
    closer = observer.hear(Classification, f'{scheduler}/closer/classification')
    named = observer.hear(Classification, f'{scheduler}/side/classification')
    wait_for(lambda: schedules, f'a schedule: {node.output}')
    first = schedules[0]
    assert first.feasible and 0.0 < first.utilisation <= 1.0 and first.header.frame_id == 'cpu'
    assert [task.task for task in first.tasks] == ['front', 'side', 'closer']
    qualities = [task.quality for task in first.tasks]
    assert first.total_quality == pytest.approx(qualities[0] + 0.5 * qualities[1] + qualities[2])
    camera = start_camera(f'{namespace}/front', f'{namespace}/side')
    for name in ('front', 'side'):
        wait_for(lambda: Counter(job.task for job in jobs)[name] >= 8, f'jobs of {name}')
    wait_for(lambda: len(found) >= 5 and len(named) >= 5 and closer, 'results')
    assert closer[0].header.frame_id == 'camera' and closer[0].results[0].class_id == 'dog'
    assert found[0].detections[0].results[0].hypothesis.class_id == 'thing'
    assert named[0].results[0].class_id == 'dog'
    # A machine a hundred times as slow: nothing fits, which is said, and goes on all the same.
    contention = observer.speaker(ContentionState, f'{namespace}/contention_monitor/state', RESULTS)
    contention.publish(ContentionState(slowdown=MAX_SLOWDOWN))
    wait_for(lambda: not schedules[-1].feasible, 'a schedule that says so')
    assert {task.period_ms for task in schedules[-1].tasks} == {480.0}
    observer.wait_status('qos_scheduler', 'fits its own deadline')
    contention.publish(ContentionState(slowdown=1.0))
    wait_for(lambda: schedules[-1].feasible, 'a schedule again')
    said = observer.set_parameters(scheduler, active_tasks=['nobody'])
    assert said == 'active_tasks names nobody, expected some of front, side, closer'
    assert observer.set_parameters(scheduler, active_tasks=['side']) == ''
    wait_for(lambda: [task.task for task in schedules[-1].tasks] == ['side'])
    wait_for(lambda: [job.task for job in jobs[-3:]] == ['side'] * 3, 'jobs of it')
    before = len(jobs)
    wait_for(lambda: len(jobs) >= before + 3, 'more of them')
    assert {job.task for job in jobs[before:]} == {'side'}
    camera.stop()
    assert {job.header.frame_id for job in jobs} == {'camera'}
    observer.wait_status('qos_scheduler', **{'front level': 'rests'})
    _, _, values = observer.status('qos_scheduler')
    assert float(values['slowdown']) == 1.0 and int(values['front jobs']) >= 8
    observer.wait_status('qos_scheduler', f'no image on {namespace}/front for ', level=2)
    assert node.end() == 0, node.output


@pytest.mark.slow
def test_a_network_that_hangs_does_not_take_the_other_down(
    start_node, observer, wait_for, namespace, tmp_path, monkeypatch, start_camera
):
    flag, no_number = tmp_path / 'hang', tmp_path / 'nan'
    monkeypatch.setenv(FLAG, str(flag))
    monkeypatch.setenv(NAN_FLAG, str(no_number))
    tasks = write_tasks(
        tmp_path,
        bad=task(tmp_path, make_hanging, image_topic='image', periods_ms=[200]),
        good=task(tmp_path, make_classifier, image_topic='image', periods_ms=[200]),
    )
    node = start_node('qos_scheduler', {'tasks': tasks, 'priority': "'off'"})
    jobs = observer.hear(JobReport, f'{namespace}/qos_scheduler/jobs')
    start_camera(f'{namespace}/image')
    wait_for(lambda: {job.task for job in jobs} == {'bad', 'good'}, f'jobs of both: {node.output}')
    flag.touch()
    wait_for(lambda: any(job.outcome == JobReport.HUNG for job in jobs), 'the hang to be reported')
    before = len(jobs)
    wait_for(lambda: len(jobs) >= before + 5, 'jobs of the other')
    assert {job.task for job in jobs[before:]} == {'good'}
    observer.wait_status('qos_scheduler', 'bad hangs')
    flag.unlink()
    wait_for(lambda: jobs[-1].task == 'bad', 'the network to come back')
    no_number.touch()  # a network that went NaN is no empty road
    observer.wait_status('qos_scheduler', 'a job of bad failed: ')
    level, message, _ = observer.status('qos_scheduler')
    assert level == 1 and 'boxes or scores hold NaN or infinity' in message
