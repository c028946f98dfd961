"""The policy file of SROS2 against what the nodes, as real processes, publish, subscribe to and serve."""

from __future__ import annotations

import subprocess
import sys
from xml.etree import ElementTree

import pytest
from made_up_network import write_network
from rclpy.node import NodeNameNonExistentError
from sensor_msgs.msg import Image

from deadline_perception.nodes.access_policy import ACCESS
from deadline_perception.nodes.node_table import NODES, OPTIONAL_NODES

ARGUMENTS = ('--namespace', '/car', '--image-topic', '/cam/image', '--odometry-topic', 'wheels')
OPTIONAL = {  # what the graph need not show: simulated time, compressed images, a classifier, or of newer rclpy
    'subscribe': {'/clock', '/parameter_events', '/cam/image/compressed'},
    'publish': {'classification'},
    'reply': {'get_type_description'},
}


def policy(*words):
    return subprocess.run(
        [sys.executable, '-m', 'deadline_perception.nodes', 'bringup', '--policy', *words],
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.fixture(scope='module')
def allowed():
    """Node and right -> names."""
    run = policy(*ARGUMENTS)
    assert run.returncode == 0, run.stderr
    root = ElementTree.fromstring(run.stdout.encode())
    assert root.tag == 'policy' and root.get('version') == '0.2.0'
    (enclave,) = root.findall('enclaves/enclave')
    assert enclave.get('path') == '/'  # of processes that name none
    found = {}
    for profile in enclave.findall('profiles/profile'):
        assert profile.get('ns') == '/car'
        for group in profile:
            ((right, word),) = group.attrib.items()
            assert (group.tag, word) == ('services' if right == 'reply' else 'topics', 'ALLOW')
            found[profile.get('node'), right] = {name.text for name in group}
    return found


def graph_of(observer, name):
    """Names by right, as the middleware tells them."""
    return {
        'publish': {
            topic for topic, _ in observer.get_publisher_names_and_types_by_node(name, '/car')
        },
        'subscribe': {
            topic for topic, _ in observer.get_subscriber_names_and_types_by_node(name, '/car')
        },
        'reply': {
            service for service, _ in observer.get_service_names_and_types_by_node(name, '/car')
        },
    }


def differences(allowed, observer):
    """Names that a node uses and may not, and those that it may and does not."""
    found = []
    for entry in NODES:
        try:
            graph = graph_of(observer, entry.name)
        except NodeNameNonExistentError:
            found.append(f'no {entry.name}')
            continue
        for right, names in graph.items():
            wanted = allowed[entry.name, right]
            unused = {
                name
                for name in wanted - names
                if name not in OPTIONAL[right] and name.rsplit('/', 1)[-1] not in OPTIONAL[right]
            }
            found += [f'{entry.name} {right} {name}: not allowed' for name in names - wanted]
            found += [f'{entry.name} {right} {name}: not used' for name in unused]
    return sorted(found)


def test_it_allows_what_the_nodes_use_and_nothing_else(allowed, observer, wait_for, tmp_path):
    write_network(tmp_path)
    with (tmp_path / 'log').open('w') as log:
        process = subprocess.Popen(
            [
                sys.executable,
                '-m',
                'deadline_perception.nodes',
                'bringup',
                *ARGUMENTS,
                '--model',
                str(tmp_path / 'good.safetensors'),
                '--profile',
                str(tmp_path / 'good.json'),
            ],
            stderr=log,
            stdout=log,
        )
    observer.hear(Image, '/car/path_visualizer/image')  # opens the camera
    found = []

    def agree():
        assert process.poll() is None
        found[:] = differences(allowed, observer.node)
        return not found

    try:
        wait_for(agree, 'the rights of all nodes')
    finally:
        process.terminate()
        process.wait(60)
        print(found, (tmp_path / 'log').read_text()[-2000:])


def test_it_follows_the_arguments(allowed):
    assert '/car/wheels' in allowed['vehicle_speed', 'subscribe']
    assert {'/cam/image', '/cam/camera_info'} <= allowed['path_visualizer', 'subscribe']
    assert {'/car/detector/detections', '/car/detector/classification'} <= allowed[
        'detector', 'publish'
    ]
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
    assert {*ACCESS, 'qos_scheduler'} == {entry.name for entry in (*NODES, *OPTIONAL_NODES)}
