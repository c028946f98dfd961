"""The lifecycle node `qos_scheduler`: several networks on the devices of one machine, scheduled for the most quality.

It loads the networks of a task file, gives each a level and a period so that all deadlines are met under EDF that
preempts between segments, and runs them, one segment at a time per device. When contention, speed or the set of tasks
changes, there is a new schedule, and the next jobs follow it; nothing is stopped.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from geometry_msgs.msg import TwistStamped
from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from rclpy.timer import Timer
from sensor_msgs.msg import CompressedImage, Image
from std_msgs.msg import Header
from vision_msgs.msg import LabelInfo

from deadline_perception.core.detections import Detections
from deadline_perception.core.device import use_threads
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.choice import ENGINES
from deadline_perception.extras.several_networks.most_important_crop import (
    Crop,
    most_important_crop,
)
from deadline_perception.extras.several_networks.nested_task import NestedTask, load_nested_task
from deadline_perception.extras.several_networks.network_schedule import (
    NetworkSchedule,
    make_schedule,
)
from deadline_perception.extras.several_networks.network_scheduler import NetworkScheduler
from deadline_perception.extras.several_networks.task_file import read_tasks
from deadline_perception.msg import ContentionState, JobReport, Schedule
from deadline_perception.nodes.detector_parameters import rows
from deadline_perception.nodes.frame_messages import RESULT_KINDS, label_info
from deadline_perception.nodes.health import Level, Report, report_of
from deadline_perception.nodes.image_input import ImageInput
from deadline_perception.nodes.managed_node import ManagedNode
from deadline_perception.nodes.message_intake import THROTTLE_S, MessageIntake
from deadline_perception.nodes.messages import to_bgr
from deadline_perception.nodes.parameters import Parameter, Value, declare
from deadline_perception.nodes.periodic_clock import steady_timer
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.schedule_messages import job_report, schedule_message
from deadline_perception.nodes.service_quality import ANY_SOURCE, FRAMES, LATCHED, RESULTS
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.image_flow import TOLD_MS
from deadline_perception.runtime.job import Job, JobRecord, Outcome
from deadline_perception.runtime.loading import SetupError
from deadline_perception.system.kernel_thread import parse_cores
from deadline_perception.system.priority import Role, ThreadPriority

PARAMETERS = (
    Parameter(
        'tasks',
        '',
        'Task file (YAML): a name for each task, and its network, camera, levels and periods.',
        waits_for='configure',
    ),
    Parameter(
        'active_tasks',
        [''],
        'Names of the tasks that take part; empty: all. A change makes a new schedule.',
    ),
    *rows('autostart', 'image_transport', 'reliability', 'threads', 'priority', 'cores'),
    Parameter(
        'engine',
        'auto',
        "What runs the segments of weights on the CPU, as the detector's parameter of that name.",
        choices=ENGINES,
        waits_for='configure',
    ),
    Parameter(
        'target_miss_probability',
        0.01,
        'Share of jobs that may exceed their bound.',
        minimum=0.0001,
        maximum=0.5,
        waits_for='configure',
    ),
    Parameter(
        'raise_levels',
        True,
        'Use what jobs leave of their time for higher levels while all deadlines are met.',
        waits_for='activate',
    ),
)
_LOOK_PERIOD_S = 0.5  # between two comparisons of bounds and conditions with those of the schedule
_STOP_TIMEOUT_S = 3.0
_DEFAULT_SPEED_MPS = 13.9  # 50 km/h, until the first one is heard


@dataclass(eq=False)
class _TaskTopics:
    """A task as the node serves it: its messages, and the image at work. Told of its jobs on threads of its executor."""

    node: QosSchedulerNode
    task: NestedTask
    filler: Any
    publish_result: Callable[[Any], None]
    publish_labels: Callable[[Any], None]
    followers: tuple[str, ...] = ()
    image_bgr: np.ndarray | None = None
    rejected: int = 0

    def convert(self, job: Job) -> np.ndarray | None:
        try:
            self.image_bgr = (
                job.message.pixels_bgr if isinstance(job.message, Crop) else to_bgr(job.message)
            )
        except DeadlinePerceptionError as error:
            self.rejected += 1
            self.node.get_logger().warning(
                f'{self.task.name}: image rejected: {error}', throttle_duration_sec=THROTTLE_S
            )
            return None
        return self.image_bgr

    def publish(self, job: Job, result: Any) -> None:
        header = job.message.header
        self.publish_result(self.filler.fill(result, header))
        if self.followers and self.image_bgr is not None:
            self.node.hand_on(self.followers, header, most_important_crop(self.image_bgr, result))

    def on_record(self, record: JobRecord) -> None:
        self.task.observe(record)
        self.node.tell(self.task, record)

    def on_failure(self, error: BaseException) -> None:
        self.node.on_failure(error)


class QosSchedulerNode(ManagedNode):
    """Publishes `~/schedule` and `~/jobs`, and of each task `~/TASK/detections` or `~/TASK/classification`."""

    def __init__(self) -> None:
        super().__init__('qos_scheduler')
        self._served: dict[str, _TaskTopics] = {}
        self._values = declare(self, PARAMETERS, self._check)
        self._loader: Executor | None = None
        self._schedulers: dict[str, NetworkScheduler] = {}
        self._hung: list[
            NetworkScheduler
        ] = []  # of the last activation: while one is, there is no next
        self._schedules: dict[str, NetworkSchedule] = {}
        self._timer: Timer | None = None
        self._images: list[ImageInput] = []
        self._failure, self._failed_ms = '', -math.inf
        self._intake = MessageIntake(self)
        self._speed_mps: float | None = None
        self._slowdown, self._made = 1.0, 0
        self._begin(self._values['autostart'])

    def _check(self, values: Mapping[str, Value]) -> None:
        parse_cores(values['cores'])
        self._check_active(values['active_tasks'])

    def _check_leaders(self) -> None:
        for name, served in self._served.items():
            leader = self._served.get(served.task.request.crops_of)
            if leader is not None and leader.task.network.result_type is not Detections:
                raise SetupError(
                    f'crops_of of task {name} is {leader.task.name}, which gives '
                    f'{leader.task.network.result_type.__name__}, expected a task of a detector'
                )

    def _check_active(self, names: Sequence[str]) -> None:
        """Refuses tasks that the file does not have, once it is read: they would stop all others."""
        unknown = (
            sorted({name for name in names if name} - set(self._served)) if self._served else []
        )
        if unknown:
            raise SetupError(
                f'active_tasks names {", ".join(unknown)}, expected some of {", ".join(self._served)}'
            )

    # --- lifecycle ---

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Loads and warms the networks of the task file; blocks for seconds."""
        values = self._values.snapshot()
        self._loader = Executor('loading')
        try:
            if not values['tasks']:
                raise SetupError(
                    'tasks is empty, expected a task file; docs/several_networks.md has an example'
                )
            requests = read_tasks(Path(values['tasks']).expanduser())
            for request in requests:
                task = self._loader.do(
                    partial(
                        load_nested_task,
                        request,
                        share_folder() / 'models',
                        threads=values['threads'],
                        engine=values['engine'],
                        target_miss_probability=values['target_miss_probability'],
                        networks=self._loader.networks,
                    )
                )
                self._served[request.name] = self._topics_of(task)
            self._check_leaders()
            self._check_active(values['active_tasks'])
        except (Exception, SystemExit) as error:  # whatever a network does as it is loaded
            return self._refuse(error)
        for name, served in self._served.items():
            served.followers = tuple(
                other
                for other, follower in self._served.items()
                if follower.task.request.crops_of == name
            )
        self._publish_schedule = self._output(Schedule, '~/schedule', LATCHED)
        self._publish_job = self._output(JobReport, '~/jobs', FRAMES)
        for served in self._served.values():
            for notice in served.task.notices:
                self.get_logger().warning(f'{served.task.name}: {notice}')
            self.get_logger().info(
                f'configured: task {served.task.name}, {served.task.network.config_name} with '
                f'{len(served.task.paths)} levels on {served.task.request.device}'
            )
        return super().on_configure(state)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Makes the first schedule, and listens."""
        values = self._values.snapshot()
        self._priority = ThreadPriority(values['priority'], cores=parse_cores(values['cores']))
        self._priority.raise_thread(Role.SUPPORTING)
        result = super().on_activate(state)
        for device in dict.fromkeys(served.task.request.device for served in self._served.values()):
            executor = Executor()
            executor.start(
                self._priority,
                self.on_failure,
                prepare=partial(use_threads, values['threads']),
                collects_garbage=True,
            )
            self._schedulers[device] = NetworkScheduler(
                executor,
                {
                    name: (served.task, served)
                    for name, served in self._served.items()
                    if served.task.request.device == device
                },
                raises_levels=values['raise_levels'],
            )
        for served in self._served.values():
            served.publish_labels(
                label_info(served.task.network.class_names, self.get_clock().now().to_msg())
            )
        self._look()
        self._subscribe(values)
        self._timer = steady_timer(self, _LOOK_PERIOD_S, self._look)
        return result

    def _halt(self) -> None:
        if self._timer is None:
            return
        self.destroy_timer(self._timer)
        self._intake.close()
        for images in self._images:
            images.close()
        self._timer, self._images, self._hung = None, [], []
        for device, scheduler in self._schedulers.items():
            if not scheduler.stop() or scheduler.is_at_work:
                self._hung.append(scheduler)
                self.get_logger().error(f'a network on {device} did not let go of its job')
        self._priority.restore()
        self._schedulers, self._schedules = {}, {}

    def _still_hangs(self) -> bool:
        """See `ManagedNode`."""
        return any(scheduler.is_at_work for scheduler in self._hung)

    def _release(self) -> None:
        super()._release()
        served_tasks, self._served = self._served, {}
        if self._loader is not None:
            self._loader.submit(
                served_tasks.clear
            )  # networks are let go of where they were loaded, which may take its time
            self._loader.close(_STOP_TIMEOUT_S)
            self._loader = None

    # --- topics ---

    def _topics_of(self, task: NestedTask) -> _TaskTopics:
        network = task.network
        kind = RESULT_KINDS.get(network.result_type)
        if kind is None:
            raise SetupError(
                f'task {task.name}: network gives {network.result_type.__name__}, expected one of '
                f'{", ".join(known.__name__ for known in RESULT_KINDS)}'
            )
        topic = kind.topic.replace('~/', f'~/{task.name}/')
        return _TaskTopics(
            self,
            task,
            kind.maker(network.class_names),
            self._output(kind.message, topic),
            self._output(LabelInfo, f'~/{task.name}/label_info', LATCHED),
        )

    def _subscribe(self, values: Mapping[str, Value]) -> None:
        by_topic: dict[str, list[str]] = {}
        for name, served in self._served.items():
            if served.task.request.crops_of:
                continue
            by_topic.setdefault(served.task.request.image_topic or f'~/{name}/image', []).append(
                name
            )
        self._images = [
            ImageInput(
                self,
                topic,
                values['image_transport'],
                values['reliability'],
                on_image=partial(self._on_image, tuple(names)),
            )
            for topic, names in by_topic.items()
        ]
        self._intake.listen(
            ContentionState, 'contention_monitor/state', self._on_contention, RESULTS
        )
        self._intake.listen(TwistStamped, 'vehicle_speed/speed', self._on_speed, ANY_SOURCE)

    def _on_image(
        self,
        names: tuple[str, ...],
        message: Image | CompressedImage,
        waited_ns: int,
        left_out: int,
    ) -> None:
        for name in names:
            scheduler = self._schedulers.get(self._served[name].task.request.device)
            if scheduler is not None:
                scheduler.submit(name, message)

    def _on_contention(self, message: ContentionState) -> None:
        self._slowdown = message.slowdown

    def _on_speed(self, message: TwistStamped) -> None:
        if not math.isnan(message.twist.linear.x):  # NaN: not known, the one before stays in force
            self._speed_mps = abs(message.twist.linear.x)

    # --- schedules ---

    @property
    def _speed(self) -> float:
        return _DEFAULT_SPEED_MPS if self._speed_mps is None else self._speed_mps

    def _active(self, device: str) -> list[NestedTask]:
        wanted = [name for name in self._values['active_tasks'] if name]
        return [
            served.task
            for name, served in self._served.items()
            if served.task.request.device == device and (not wanted or name in wanted)
        ]

    def _look(self) -> None:
        """Makes new schedules where tasks or conditions have changed."""
        for device, scheduler in self._schedulers.items():
            tasks = self._active(device)
            for task in tasks:
                task.slowdown = self._slowdown
            schedule = self._schedules.get(device)
            if not tasks:
                scheduler.follow({})
                self._schedules.pop(device, None)
            elif schedule is None or not schedule.holds(tasks, self._speed):
                schedule = make_schedule(tasks, self._speed)
                self._made += 1
                scheduler.follow(schedule.plans)
                self._schedules[device] = schedule
                self._publish_schedule(
                    schedule_message(schedule, tasks, device, self.get_clock().now().to_msg())
                )
                words = ', '.join(
                    f'{name} at level {plan.level} every {plan.period_ms:g} ms'
                    for name, plan in schedule.plans.items()
                )
                self.get_logger().info(
                    f'schedule of {device}: {words}; utilisation '
                    f'{schedule.allocation.utilisation:.2f}',
                    throttle_duration_sec=THROTTLE_S,
                )

    # --- on the threads of the executors ---

    def tell(self, task: NestedTask, record: JobRecord) -> None:
        """Publishes what a job of a task came to."""
        if record.outcome is Outcome.FAILED:  # such as results that are not finite
            self._failure, self._failed_ms = (
                f'a job of {task.name} failed: {record.failure}',
                now_ms(),
            )
            self.get_logger().error(self._failure, throttle_duration_sec=THROTTLE_S)
        header = Header(
            frame_id=record.message.header.frame_id, stamp=self.get_clock().now().to_msg()
        )
        self._publish_job(job_report(record, task, header))

    def hand_on(self, followers: Sequence[str], header: Header, pixels: np.ndarray | None) -> None:
        """Leaves the most important object of an image, where it has one, to the tasks that look at it."""
        if pixels is not None:
            for name in followers:
                self._schedulers[self._served[name].task.request.device].submit(
                    name, Crop(pixels, header)
                )

    def on_failure(self, error: BaseException) -> None:
        """Logs an error of a job or of a thread."""
        if self.context.ok():
            self.get_logger().error(
                f'a job failed: {type(error).__name__}: {error}', throttle_duration_sec=THROTTLE_S
            )

    # --- diagnostics ---

    def _report(self) -> Report:
        values: dict[str, object] = {'state': self._state, 'schedules': self._made}
        if self._state != 'active':
            return Report(Level.OK, self._state, values)
        concerns = []
        for device, scheduler in list(self._schedulers.items()):
            schedule, counts = self._schedules.get(device), scheduler.counts
            if schedule is not None:
                values |= {
                    f'{device} utilisation': schedule.allocation.utilisation,
                    f'{device} quality': schedule.allocation.quality,
                    f'{device} blocking_ms': schedule.blocking_ms,
                }
                concerns.append(f'{device}: {schedule.refusal}' if schedule.refusal else '')
            concerns += [f'{name} hangs' for name in scheduler.hanging]
            for name, count in counts.items():
                plan = None if schedule is None else schedule.plans.get(name)
                values |= {
                    f'{name} level': 'rests'
                    if plan is None
                    else f'{plan.level} every {plan.period_ms:g} ms',
                    f'{name} jobs': count.jobs,
                    f'{name} misses': count.misses,
                    f'{name} miss ratio upper 95 %': count.miss_ratio_upper_95,
                    f'{name} raised levels': count.raised,
                    f'{name} preemptions': count.preemptions,
                    f'{name} longest blocking, ms': count.longest_blocking_ms,
                    f'{name} replaced images': count.replaced,
                    f'{name} rejected images': self._served[name].rejected,
                }
                if count.last_failure:
                    values[f'{name} last failure'] = count.last_failure
        values |= {
            'refused_messages': self._intake.refused,
            'slowdown': self._slowdown,
            'speed_mps': self._speed,
            'priority': self._priority.in_force,
        }
        for images in self._images:
            concerns += images.concerns
            values[f'{images.flow.topic} lost images'] = images.flow.lost
        concerns += [
            self._intake.concern,
            self._failure if now_ms() - self._failed_ms < TOLD_MS else '',
        ]
        return report_of(
            values,
            'scheduling',
            concerns=concerns,
            faults=[images.fault for images in self._images],
        )


def main() -> int:
    return run_node('qos_scheduler', QosSchedulerNode)
