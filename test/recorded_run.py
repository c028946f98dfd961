"""Writes recordings as the nodes make them, message by message, for tests of what reads them."""

from pathlib import Path

import numpy as np
from rosbags.interfaces import Nodetype
from rosbags.rosbag2 import StoragePlugin, Writer

from deadline_perception.core.execution_path import ExecutionPath, setting_text
from deadline_perception.extras.data.bag_messages import BagMessages
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.faster_rcnn.declaration import multi_path_space

NAMES = ('vehicle', 'bike', 'motorbike', 'traffic_light', 'traffic_sign')
SPACE = multi_path_space(
    skips_per_stage=(1, 1, 1, 1),
    widths=(1.0, 0.75, 0.5, 0.25),
    pyramid_widths=(1.0, 0.5),
    proposals=(10, 25, 50, 100),
    heads=3,
)
PATH = 's0000-w1.00-p100-h1'
SECOND_NS = 1_000_000_000
START_NS = 1_700_000_000 * SECOND_NS
# Fields of a frame whose image had no stamp.
UNSTAMPED = {'stamp_ns': 0, 'total_ms': float('nan'), 'age_ms': float('nan')}


class RunWriter:
    """A bag under construction in a folder that does not exist yet; a context manager. A namespace such as `/robot1` is
    put before every topic."""

    def __init__(
        self, bag: Path, *, namespace: str = '', storage: StoragePlugin = StoragePlugin.MCAP
    ) -> None:
        self.types = message_types()
        self.messages = BagMessages(self.types)
        self.make, self.header = self.messages.make, self.messages.header
        self.namespace = namespace
        self.writer = Writer(bag, version=9, storage_plugin=storage)
        self.connections = {}

    def __enter__(self):
        self.writer.open()
        return self

    def __exit__(self, *error) -> None:
        self.writer.close()

    def write(self, topic: str, message, time_ns: int) -> None:
        name = message.__msgtype__
        if topic not in self.connections:
            self.connections[topic] = self.writer.add_connection(
                self.namespace + topic, name, typestore=self.types
            )
        self.writer.write(self.connections[topic], time_ns, self.types.serialize_cdr(message, name))

    def message(self, name: str, /, **given):
        """A message whose other fields are zero, empty or the like."""
        fields = self.types.fielddefs[name][1]
        return self.make(name, **{field: self._zero(*kind) for field, kind in fields} | given)

    def _zero(self, kind: Nodetype, of) -> object:
        if kind is Nodetype.BASE:
            return {'string': '', 'bool': False}.get(of[0], 0.0 if of[0].startswith('f') else 0)
        return self.message(of) if kind is Nodetype.NAME else []

    def _own(self, topic: str, stamp_ns: int, name: str, /, **given) -> None:
        """A message of the package."""
        header = self.header(stamp_ns)
        message = self.message(f'deadline_perception/msg/{name}', header=header, **given)
        self.write(topic, message, stamp_ns)

    def camera(self, stamp_ns: int, topic: str = '/camera/camera_info') -> None:
        self.write(topic, self.messages.camera_info(stamp_ns, 640, 380, None), stamp_ns)

    def speed(self, stamp_ns: int, speed_mps: float) -> None:
        self.write('/vehicle_speed/speed', self.messages.speed(stamp_ns, speed_mps), stamp_ns)

    def budget(self, stamp_ns: int, budget_ms: float, speed_mps: float) -> None:
        facts = {'budget_ms': budget_ms, 'speed_mps': speed_mps, 'policy': 'table'}
        limits = {'min_budget_ms': 30.0, 'max_budget_ms': 300.0}
        self._own('/time_budget/budget', stamp_ns, 'TimeBudget', **facts, **limits)

    def label_info(self, stamp_ns: int, names: tuple[str, ...]) -> None:
        classes = [
            self.make('vision_msgs/msg/VisionClass', class_id=number, class_name=name)
            for number, name in enumerate(names)
        ]
        header = self.header(stamp_ns)
        info = self.message('vision_msgs/msg/LabelInfo', header=header, class_map=classes)
        self.write('/detector/label_info', info, stamp_ns)

    def contention(self, stamp_ns: int, slowdown: float) -> None:
        absent = dict.fromkeys(('gpu_utilisation', 'gpu_memory_used'), float('nan'))
        cpu = {'cpu_utilisation': 0.5, 'cpu_pressure': 0.1, 'probe_ms': 1.0, 'probe_idle_ms': 1.0}
        facts = {'slowdown': slowdown, 'sources': ['proc_stat'], **cpu, **absent}
        self._own('/contention_monitor/state', stamp_ns, 'ContentionState', **facts)

    def boxes(self, topic: str, stamp_ns: int, objects: list[tuple], time_ns: int = 0) -> None:
        """Objects are (box xyxy, class name, score)."""
        self.write(topic, self.messages.detections(stamp_ns, objects), time_ns or stamp_ns)

    def latency(
        self,
        stamp_ns: int,
        *,
        total_ms: float = 60.0,
        budget_ms: float = 100.0,
        network_ms: float = 50.0,
        topic: str = '/detector/latency',
        **fields,
    ) -> None:
        """A FrameLatency whose parts add up: 4 ms of age, the network's time, and the rest as queueing."""
        split = {'pre': 0.03, 'conv': 0.7, 'rpn': 0.1, 'head': 0.15, 'post': 0.02}
        phases = [
            self.make('deadline_perception/msg/PhaseTime', name=phase, ms=network_ms * share)
            for phase, share in split.items()
        ]
        own = {'age_ms': 4.0, 'convert_ms': 0.4, 'decision_ms': 0.1, 'publish_ms': 0.5}
        own |= {'queue_ms': total_ms - network_ms - 5.0, 'overhead_ms': total_ms - network_ms - 4}
        given = {'total_ms': total_ms, 'budget_ms': budget_ms, 'network_ms': network_ms}
        forecast = dict.fromkeys(('forecast_ms', 'idle_forecast_ms'), 0.9 * network_ms)
        bounds = {'bound_ms': 1.2 * network_ms, 'wcet_ms': 1.5 * network_ms, 'feasible': True}
        values = {'phases': phases, 'path': PATH, 'device': 'cpu (1 thread)'}
        values |= {'deadline_met': total_ms <= budget_ms}
        values |= own | given | forecast | bounds | fields
        self._own(topic, stamp_ns, 'FrameLatency', **values)

    def decision(self, stamp_ns: int, path: str = PATH, **fields) -> None:
        changed = fields.pop('changed', False)
        operators = []
        for operator, level in zip(SPACE.operators, SPACE.parse(path).settings):
            setting = setting_text(operator.settings[level])
            facts = {'name': operator.name, 'kind': operator.kind, 'setting': setting}
            facts |= {'level': level, 'levels': len(operator.settings), 'decided': True}
            facts |= {'remaining_ms': 20.0, 'bound_ms': 8.0, 'decision_us': 3.0}
            facts['changed'] = changed and operator.name == 'head'
            kind = 'deadline_perception/msg/OperatorDecision'
            operators.append(self.message(kind, **facts))
        values = {'planned_path': path, 'path': path, 'operators': operators, 'feasible': True}
        values |= {'budget_ms': 100.0, 'remaining_ms': 90.0, 'slowdown': 1.0, 'decision_us': 12.0}
        values |= {'forecast_ms': 45.0, 'bound_ms': 60.0, 'wcet_ms': 75.0, 'quality': 0.35}
        values |= {'contention_source': 'proc_stat+probe', 'target_miss_probability': 0.01}
        values |= {'policy': 'frontier', 'reason': 'best quality whose bound fits'} | fields
        self._own('/detector/path', stamp_ns, 'PathDecision', **values)


def write_drive(bag: Path, *, frames: int, namespace: str = '') -> None:
    """A made-up drive at 10 Hz that speeds up and stops: path and budget follow the speed, a few frames miss."""
    random = np.random.default_rng(0)
    with RunWriter(bag, namespace=namespace) as run:
        for index in range(frames):
            stamp_ns = START_NS + index * SECOND_NS // 10
            phase = index / frames
            speed_mps = float(max(0.0, 20 * np.sin(np.pi * min(1.0, 1.25 * phase))))
            budget_ms = float(np.clip(1100 / max(speed_mps, 1), 60, 240))
            budget_ms = 40.0 if 0.35 < phase < 0.4 else budget_ms
            slowdown = 1.7 if 0.6 < phase < 0.75 else 1.0 + 0.03 * random.random()
            run.camera(stamp_ns)
            run.budget(stamp_ns, budget_ms, speed_mps)
            run.contention(stamp_ns, slowdown)
            box = [100 + 2 * index % 400, 150, 180 + 2 * index % 400, 210]
            light, difficult = [300, 50, 312, 80], [500, 200, 504, 204]
            known = (box, 'vehicle', 1.0), (light, 'traffic_light', 1.0), (difficult, 'bike', 0.0)
            run.boxes('/ground_truth', stamp_ns, [*known])
            if index % 37 == 36:
                continue  # this image is replaced by the next one
            level = int(np.clip((budget_ms / slowdown - 48) // 32, 0, 3))
            skips = [int(level >= least) for least in (3, 2, 1, 1)]
            path = ExecutionPath((*skips, level, int(level >= 2), level, min(level, 2)), SPACE)
            bound_ms = (35.0, 60.0, 95.0, 130.0)[level] * slowdown
            network_ms = bound_ms * random.uniform(0.7, 0.95) * (2.2 if index % 53 == 50 else 1.0)
            total_ms = network_ms + float(random.uniform(6, 12))
            plan = {'path': str(path), 'bound_ms': bound_ms, 'budget_ms': budget_ms}
            plan['feasible'] = bound_ms + 12 < budget_ms
            decided = {'changed': index % 9 == 0, 'decision_us': random.uniform(8, 30)}
            decided |= {'slowdown': slowdown, 'quality': 0.2 + 0.05 * level}
            run.decision(stamp_ns, **plan, **decided)
            found = [v + random.normal(0, 2) for v in box]
            run.boxes('/detector/detections', stamp_ns, [(found, 'vehicle', 0.8)])
            times = {'total_ms': total_ms, 'network_ms': network_ms}
            times['outcome'] = int(not plan['feasible'] and total_ms > budget_ms)  # coasted
            replaced = int(index > 0 and index % 37 == 0)
            run.latency(stamp_ns, replaced_frames=replaced, **plan, **times)
