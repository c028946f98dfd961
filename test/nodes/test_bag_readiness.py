import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from python_run import run_python

from deadline_perception.extras.data.bag import write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive
from deadline_perception.nodes.bag_readiness import ReadinessNode


@pytest.mark.slow
def test_the_run_ends_with_the_reason_when_the_detector_cannot_be_configured(tmp_path):
    write_bag(render_drive(seconds=0.4, rate_hz=5, width=160, height=96), tmp_path / 'drive.mcap')
    done = run_python(
        *(
            f'-m deadline_perception.nodes bringup --bag {tmp_path}/drive.mcap '
            f'--model {tmp_path}/missing.safetensors'
        ).split()
    )
    assert done.returncode == 1 and 'missing.safetensors does not exist' in done.stderr
    assert 'detector will not get ready: cannot be configured: weights file' in done.stderr
    lines = [line for line in done.stderr.splitlines() if 'context is invalid' not in line]
    assert lines[-1] == 'stopping: readiness failed: exit status 1'


@pytest.mark.parametrize(
    ('namespace', 'own', 'other'),
    [('/robot', 'robot/detector', 'detector'), ('/', 'detector', 'rear/detector')],
)
def test_only_the_detector_of_the_own_namespace_ends_the_wait(namespace, own, other):
    rclpy.init(args=['--ros-args', '-r', f'__ns:={namespace}'])
    node = ReadinessNode(['detector'])
    try:
        for name, ended in ((other, False), (own, True)):
            status = DiagnosticStatus(
                name=name, level=DiagnosticStatus.ERROR, message='cannot be configured'
            )
            node._on_diagnostics(DiagnosticArray(status=[status]))
            assert node.finished.done() == ended
    finally:
        node.destroy_node()
        rclpy.try_shutdown()
