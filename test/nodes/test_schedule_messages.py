from types import SimpleNamespace

import pytest
from builtin_interfaces.msg import Time
from deadline_perception.msg import JobReport
from scheduled_jobs import ended_job
from std_msgs.msg import Header

from deadline_perception.extras.several_networks.network_schedule import NetworkSchedule
from deadline_perception.extras.several_networks.scheduling.allocation import Allocation
from deadline_perception.extras.several_networks.scheduling.choices import Option
from deadline_perception.nodes.schedule_messages import job_report, schedule_message
from deadline_perception.runtime.job import Outcome

STAMP = Time(sec=12, nanosec=5)


def task(name, weight=1.0):
    return SimpleNamespace(name=name, request=SimpleNamespace(weight=weight, device='cuda:1'))


def test_a_schedule_tells_the_quality_of_each_task_without_its_weight():
    allocation = Allocation((Option(1, 100.0, 20.0, 0.8), Option(0, 50.0, 5.0, 0.3)), True)
    schedule = NetworkSchedule(
        ('front', 'rear'), allocation, {}, 10.0, ((20.0,), (5.0,)), ((20.0,), (5.0,))
    )
    message = schedule_message(schedule, [task('front'), task('rear', 0.5)], 'cuda:1', STAMP)
    assert message.header == Header(frame_id='cuda:1', stamp=STAMP) and message.feasible
    assert message.utilisation == pytest.approx(0.3) and message.total_quality == pytest.approx(1.1)
    assert [
        (row.task, row.level, row.period_ms, row.execution_time_ms, row.quality)
        for row in message.tasks
    ] == [('front', 1, 100.0, 20.0, 0.8), ('rear', 0, 50.0, 5.0, 0.6)]


TOLD = {'DETECTED': 'DONE', 'LATE': 'LATE', 'ABORTED': 'CUT', 'FAILED': 'FAILED', 'HUNG': 'HUNG'}


@pytest.mark.parametrize('name', TOLD)
def test_a_job_is_told_in_whole_nanoseconds(name):
    outcome, told = Outcome[name], getattr(JobReport, TOLD[name])
    record = ended_job(
        outcome, 'why', release_ms=1000.5, started_ms=1001.0, ended_ms=1020.25, level=1, path='dear'
    )
    message = job_report(record, task('front'), Header(frame_id='camera', stamp=STAMP))
    assert (message.task, message.outcome, message.bound_ms) == ('front', told, 20.0)
    assert (message.release_ns, message.deadline_ns) == (1_000_500_000, 1_100_500_000)
    assert (message.started_ns, message.finished_ns) == (1_001_000_000, 1_020_250_000)
    assert (message.path, message.reason) == ('dear', 'why')
    assert (message.planned_level, message.level) == (0, 1)
    assert message.header == Header(frame_id='camera', stamp=STAMP)
