"""Reads a recorded bag, mcap or sqlite3, into a `Recording`.

Topics are found by message type and last word of their name, so that any namespace and a bag made by
`ros2 bag record` on a robot work the same.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path

from deadline_perception.core.detections import Detections
from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.core.operator_record import OperatorRecord
from deadline_perception.extras.data.bag_file import BagError, BagFile
from deadline_perception.extras.data.bag_messages import (
    class_names_of,
    ground_truth_of,
    objects_of,
    speed_of,
)
from deadline_perception.extras.data.class_maps import fitting_map
from deadline_perception.extras.data.class_names import left_out, relabelled
from deadline_perception.extras.report.recording import (
    NODE_PHASES,
    DecisionRecord,
    FrameRecord,
    Recording,
    Samples,
)
from deadline_perception.runtime.job import Outcome

_WANTED = {
    'deadline_perception/msg/FrameLatency',
    'deadline_perception/msg/PathDecision',
    'deadline_perception/msg/TimeBudget',
    'deadline_perception/msg/ContentionState',
    'vision_msgs/msg/Detection2DArray',
    'vision_msgs/msg/LabelInfo',
    'sensor_msgs/msg/CameraInfo',
    'geometry_msgs/msg/TwistStamped',
}


class RecordingError(DeadlinePerceptionError):
    """A bag cannot be read, or does not hold a run of the detector."""


def read_recording(bag: Path) -> Recording:
    """Reads a recording, a bag folder or a bare .mcap or .db3 file.

    Raises:
        FileNotFoundError: there is no such file.
        RecordingError: the bag cannot be read, holds messages of another definition, or no FrameLatency message.
    """
    bag, messages = Path(bag), defaultdict(list)
    try:
        return _recording(bag, messages, ending=_read(bag, messages))
    except BagError as error:
        raise RecordingError(str(error)) from error
    except ValueError as error:  # of a record that damaged values do not fit
        raise RecordingError(f'{bag} holds a value that cannot be: {error}') from error
    except (
        AttributeError
    ) as error:  # its own definitions lack a field, of another version or damaged
        raise RecordingError(f'{bag} holds messages of another definition: {error}') from error


def _recording(bag: Path, messages: dict[str, list], *, ending: str) -> Recording:
    if not messages['FrameLatency']:
        raise RecordingError(
            f'{bag} holds no deadline_perception/msg/FrameLatency message, expected a recording of '
            f'the detector (topics detector/latency, detector/path, detector/detections)'
        )
    names = class_names_of(messages['detections'] + messages['ground_truth'])
    class_names = names
    if messages[
        'LabelInfo'
    ]:  # what the network knows; a recording without it is scored on all that is named in it
        known = (entry.class_name for entry in messages['LabelInfo'][-1].class_map)
        class_names = tuple(dict.fromkeys([*known, *class_names_of(messages['detections'])]))
    marked = class_names_of(messages['ground_truth'])
    applied = fitting_map(marked, class_names) if marked else None
    # the names of the data, each as the network calls it
    meant = [applied.renamed.get(name, name) for name in names] if applied else names
    ground_truth = {
        _stamp(message): ground_truth_of(message, names) for message in messages['ground_truth']
    }
    decisions = {_stamp(message): _decision(message) for message in messages['PathDecision']}
    found = {
        _stamp(message): _detections(message, class_names) for message in messages['detections']
    }
    latencies = _distinct(messages['FrameLatency'])
    decisions.pop(0, None)  # of frames without a stamp nobody knows which is whose
    found.pop(0, None)
    frames = tuple(
        _frame(message, decisions.get(_stamp(message)), found.get(_stamp(message)))
        for message in latencies
    )
    before = sum(_stamp(message) < frames[0].stamp_ns for message in messages['CameraInfo'])
    sent = {_stamp(message) for message in messages['CameraInfo']} | {
        frame.stamp_ns for frame in frames
    }
    speeds = [(_stamp(message), message.speed_mps) for message in messages['TimeBudget']] or [
        (_stamp(message), speed_of(message)) for message in messages['TwistStamped']
    ]
    return Recording(
        name=bag.name,
        class_names=class_names,
        sent_stamps_ns=tuple(sorted(sent)),
        frames=frames,
        ground_truth={
            stamp_ns: relabelled(objects, meant, class_names)
            for stamp_ns, objects in ground_truth.items()
        },
        unknown_objects=left_out(
            ground_truth.values(), names, (*class_names, *(applied.renamed if applied else ()))
        ),
        class_map=applied.described() if applied else '',
        speed_mps=_samples(speeds),
        slowdown=_samples(
            [(_stamp(message), message.slowdown) for message in messages['ContentionState']]
        ),
        rejected=_growth([message.rejected_frames_total for message in latencies], before),
        middleware_lost=_growth([message.middleware_lost_total for message in latencies], before),
        ending=ending,
    )


def _read(bag: Path, messages: dict[str, list]) -> str:
    """Collects by role what matters here, in the order of the bag; returns where a bag ends that was cut off."""
    by_topic = defaultdict(list)
    with closing(BagFile(bag)) as source:
        wanted = {topic.name for topic in source.topics if topic.msgtype in _WANTED}
        for topic, msgtype, _, raw in source.messages(wanted):
            if msgtype in _WANTED:
                by_topic[_role(topic, msgtype), topic].append(source.parse(raw, msgtype))
    detectors = sorted(topic for role, topic in by_topic if role == 'FrameLatency')
    if len(detectors) > 1:
        raise RecordingError(
            f'{bag} holds {len(detectors)} detectors ({", ".join(detectors)}), expected one'
        )
    for (role, _), found in by_topic.items():
        messages[role] += found if role != 'CameraInfo' else []
    answered = {_stamp(message) for message in messages['FrameLatency']}
    cameras = [found for (role, _), found in by_topic.items() if role == 'CameraInfo']
    messages['CameraInfo'] = max(
        cameras, key=lambda found: len(answered & set(map(_stamp, found))), default=[]
    )
    return source.ending


def _role(topic: str, msgtype: str) -> str:
    """What a topic is to us: the message's type, but some share theirs."""
    kind, name = msgtype.rsplit('/', 1)[-1], topic.rsplit('/', 1)[-1]
    if kind == 'Detection2DArray':
        return name if name in ('ground_truth', 'detections') else 'other'
    return 'other' if name == 'late' else kind


def _stamp(message) -> int:
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def _distinct(messages: list) -> list:
    """The first message of each stamp; all of those without one."""
    first = {_stamp(message): message for message in reversed(messages)}
    return [
        message for message in messages if not _stamp(message) or first[_stamp(message)] is message
    ]


def _detections(message, class_names: tuple[str, ...]) -> Detections:
    boxes, labels, scores = objects_of(message, class_names)
    return Detections(boxes, scores, labels)


def _copied(record: type, message, **given):
    """A record whose fields are those of the message, but for the given ones."""
    names = [field.name for field in fields(record) if field.name not in given]
    return record(**{name: getattr(message, name) for name in names}, **given)


def _decision(message) -> DecisionRecord:
    operators = tuple(_copied(OperatorRecord, operator) for operator in message.operators)
    return _copied(DecisionRecord, message, operators=operators)


def _frame(message, decision: DecisionRecord | None, detections: Detections | None) -> FrameRecord:
    return _copied(
        FrameRecord,
        message,
        stamp_ns=_stamp(message),
        outcome=Outcome(message.outcome),
        phase_ms={phase: getattr(message, f'{phase}_ms') for phase in NODE_PHASES},
        network_phase_ms={phase.name: phase.ms for phase in message.phases},
        replaced=message.replaced_frames,
        decision=decision,
        detections=detections,
        # recordings of before lack these
        wcet_ms=getattr(message, 'wcet_ms', math.nan) or math.nan,
        results=tuple(getattr(message, 'results', ())),
    )


def _samples(pairs: list[tuple[int, float]]) -> Samples:
    pairs = sorted(pairs)
    return Samples(tuple(stamp_ns for stamp_ns, _ in pairs), tuple(value for _, value in pairs))


def _growth(totals: Sequence[int], most_before: int) -> int:
    """Sum of a counter's increments. A counter that falls was reset by a restart; of what it had counted before the
    first frame, no more than the images that were seen sent before it belong to the recording."""
    grown = min(totals[0], most_before)
    for before, total in itertools.pairwise(totals):
        grown += total - before if total >= before else total
    return grown
