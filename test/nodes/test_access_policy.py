"""The policy file of SROS2 against what the nodes, as real processes, publish, subscribe to and serve."""
from __future__ import annotations

import subprocess
import sys
import time
from xml.etree import ElementTree

import pytest
import rclpy
from made_up_network import write_network
from sensor_msgs.msg import Image

from deadline_perception.nodes import bringup
from deadline_perception.nodes.bringup import NODES

WAIT_S = 90.0
ARGUMENTS = ('--namespace', '/car', '--image-topic', '/cam/image', '--odometry-topic', 'wheels')
OPTIONAL = {  # what the graph need not show: where time is simulated, images compressed, or of newer rclpy
    'subscribe': {'/clock', '/parameter_events', '/cam/image/compressed'}, 'publish': set(),
    'reply': {'get_type_description'}}


def policy(*words):
    return subprocess.run([sys.executable, '-m', 'deadline_perception.nodes.bringup', '--policy', *words],
                          capture_output=True, text=True, timeout=120)


@pytest.fixture(scope='module')
def allowed():
    """Node and right -> names."""
    run = policy(*ARGUMENTS)
    assert run.returncode == 0, run.stderr
    root = ElementTree.fromstring(run.stdout.encode())
    assert root.tag == 'policy' and root.get('version') == '0.2.0'
    enclave, = root.findall('enclaves/enclave')
    assert enclave.get('path') == '/'  # of processes that name none
    found = {}
    for profile in enclave.findall('profiles/profile'):
        assert profile.get('ns') == '/car'
        for group in profile:
            (right, word), = group.attrib.items()
            assert (group.tag, word) == ('services' if right == 'reply' else 'topics', 'ALLOW')
            found[profile.get('node'), right] = {name.text for name in group}
    return found


def graph_of(observer, name):
    """Names by right, as the middleware tells them."""
    return {'publish': {topic for topic, _ in observer.get_publisher_names_and_types_by_node(name, '/car')},
            'subscribe': {topic for topic, _ in observer.get_subscriber_names_and_types_by_node(name, '/car')},
            'reply': {service for service, _ in observer.get_service_names_and_types_by_node(name, '/car')}}


@pytest.fixture
def observer():
    context = rclpy.Context()
    rclpy.init(context=context)
    node = rclpy.create_node('observer', context=context)
    yield node
    node.destroy_node()
    context.try_shutdown()


def differences(allowed, observer):
    """Names that a node uses and may not, and those that it may and does not."""
    found = []
    for entry in NODES:
        try:
            graph = graph_of(observer, entry.name)
        except rclpy.node.NodeNameNonExistentError:
            found.append(f'no {entry.name}')
            continue
        for right, names in graph.items():
            wanted = allowed[entry.name, right]
            unused = {name for name in wanted - names if name not in OPTIONAL[right]
                      and name.rsplit('/', 1)[-1] not in OPTIONAL[right]}
            found += [f'{entry.name} {right} {name}: not allowed' for name in names - wanted]
            found += [f'{entry.name} {right} {name}: not used' for name in unused]
    return sorted(found)


def test_it_allows_what_the_nodes_use_and_nothing_else(allowed, observer, tmp_path):
    write_network(tmp_path)
    with (tmp_path / 'log').open('w') as log:
        process = subprocess.Popen([sys.executable, '-m', 'deadline_perception.nodes.bringup', *ARGUMENTS, '--model',
                                    str(tmp_path / 'good.safetensors'), '--profile', str(tmp_path / 'good.json')],
                                   stderr=log, stdout=log)
    observer.create_subscription(Image, '/car/path_visualizer/image', lambda message: None, 1)  # opens the camera
    executor = rclpy.executors.SingleThreadedExecutor(context=observer.context)
    executor.add_node(observer)
    try:
        until = time.monotonic() + WAIT_S
        while (found := differences(allowed, observer)) and time.monotonic() < until:
            assert process.poll() is None, (tmp_path / 'log').read_text()
            executor.spin_once(timeout_sec=0.5)
        assert not found, (tmp_path / 'log').read_text()[-2000:]
    finally:
        executor.shutdown()
        process.terminate()
        process.wait(60)


def test_it_follows_the_arguments(allowed):
    assert '/car/wheels' in allowed['vehicle_speed', 'subscribe']
    assert {'/cam/image', '/cam/camera_info'} <= allowed['path_visualizer', 'subscribe']
    assert '/car/detector/reload' in allowed['detector', 'reply']
    assert ('crop_classifier', 'publish') not in allowed
    run = policy('--classify-crops')
    assert '<topic>/crop_classifier/detections</topic>' in run.stdout and '"/car"' not in run.stdout


def test_a_task_file_is_refused_in_one_line(tmp_path):
    (tmp_path / 'tasks.yaml').write_text('tasks: []\n')
    run = policy('--tasks', str(tmp_path / 'tasks.yaml'))
    assert run.returncode == 1 and len(run.stderr.splitlines()) == 1
    assert 'follow its task file' in run.stderr and not run.stdout


def test_every_node_of_the_table_but_the_one_of_task_files_has_its_rights():
    from deadline_perception.nodes.access_policy import ACCESS

    assert {*ACCESS, 'qos_scheduler'} == {entry.name for entry in (*NODES, *bringup.OPTIONAL_NODES)}
