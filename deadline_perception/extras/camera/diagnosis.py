"""What is wrong with a camera's topic, by what was seen of it for some seconds, and the remedy. Free of ROS."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

IMAGE, COMPRESSED = 'sensor_msgs/msg/Image', 'sensor_msgs/msg/CompressedImage'
OLDEST_S = 10.0  # as `runtime.image_flow` has it: an older image is wrongly stamped
_FUTURE_S = 0.02
_SEGMENT_BYTES = 512 * 1024  # that Fast DDS shares by default
_MOST_MISSING = 0.1  # of the images
_LEAST_IMAGES = 8  # for a word about how regularly they come
_JITTER = 0.2  # of the distance of two images
# Correlation of stamps and ages. Where both come from one clock of the driver, ages do not change with stamps; where
# stamps stray and images do not, an age is short by as much as its stamp is late.
_LIKENESS = 0.5
_ROOM = (
    'start the camera driver with FASTRTPS_DEFAULT_PROFILES_FILE and FASTDDS_DEFAULT_PROFILES_FILE naming '
    'config/fastdds.xml of this package, or let it publish reliably or compressed (docs/device.md)'
)


@dataclass(frozen=True)
class Endpoint:
    """A publisher or subscriber of the topic.

    Attributes:
        node: full name.
        kind: type of its messages, such as `sensor_msgs/msg/Image`.
        is_reliable: it offers, or asks for, that lost messages are sent again.
        is_latched: the same of the newest message for those who come later.
    """

    node: str
    kind: str
    is_reliable: bool
    is_latched: bool = False


@dataclass(frozen=True)
class Arrival:
    """An image that came.

    Attributes:
        arrived_s: system clock.
        stamp_s: of its header, seconds.
        number: of the publication, None where the middleware does not tell.
        size_bytes: of its data.
        problem: why its pixels cannot be read; empty where they can.
    """

    arrived_s: float
    stamp_s: float
    number: int | None
    size_bytes: int
    problem: str = ''


@dataclass
class SeenTopic:
    """What was seen of a camera's topic.

    Attributes:
        topic: absolute.
        watched_s: for how long.
        publishers, subscribers: of the topic; not the one who watches.
        arrivals: images, in order.
        topics: all others with their types.
        other_domains: that have a publisher of the topic.
        has_clock: somebody publishes /clock.
    """

    topic: str
    watched_s: float
    publishers: Sequence[Endpoint] = ()
    subscribers: Sequence[Endpoint] = ()
    arrivals: list[Arrival] = field(default_factory=list)
    topics: Mapping[str, Sequence[str]] = field(default_factory=dict)
    other_domains: Sequence[int] = ()
    has_clock: bool = False


@dataclass(frozen=True)
class CameraFault:
    """One thing that is wrong.

    Attributes:
        name: of the fault, in two or three words.
        found: what was seen.
        remedy: what to do.
    """

    name: str
    found: str
    remedy: str


def diagnose(seen: SeenTopic) -> list[CameraFault]:
    """All faults of a topic; empty where nothing is wrong."""
    publishers = [end for end in seen.publishers if end.kind in (IMAGE, COMPRESSED)]
    if not publishers:
        return [_nobody(seen)]
    faults = [*_misfits(seen.publishers, seen.subscribers)]
    if len(seen.publishers) > 1:
        faults.append(
            CameraFault(
                'two publishers',
                f'{seen.topic} has {len(seen.publishers)} publishers: {_names(seen.publishers)}',
                'give each camera a topic of its own, or end the one that is left over: ros2 topic info -v TOPIC',
            )
        )
    if not seen.arrivals:
        faults.append(_silence(seen, publishers))
        return faults
    faults += _pixels(seen.arrivals)
    if len(seen.publishers) == 1:
        lost = _lost(seen.arrivals, publishers[0])
        faults += lost + (_stamps(seen) or ([] if lost else _rhythm(seen.arrivals)))
    return faults


def _nobody(seen: SeenTopic) -> CameraFault:
    """Why no image can come at all."""
    if seen.publishers:
        kind = seen.publishers[0].kind
        return CameraFault(
            'message type',
            f'{seen.topic} carries {kind}, expected {IMAGE} or {COMPRESSED}',
            f'name the topic of the images: {_near(seen)}',
        )
    if seen.other_domains:
        domain = seen.other_domains[0]
        return CameraFault(
            'domain',
            f'nobody publishes {seen.topic} here, and somebody does in domain {domain}',
            f'export ROS_DOMAIN_ID={domain}, or start the camera driver in this domain',
        )
    return CameraFault(
        'no publisher',
        f'nobody publishes {seen.topic}',
        f'start the camera driver, or name its topic with image_topic: {_near(seen)}. One on another machine needs the '
        'same ROS_DOMAIN_ID, and ROS_LOCALHOST_ONLY or ROS_AUTOMATIC_DISCOVERY_RANGE that permit it',
    )


def _near(seen: SeenTopic) -> str:
    """Topics of images, that of the nearest name first."""
    images = [name for name, kinds in seen.topics.items() if {IMAGE, COMPRESSED} & {*kinds}]
    near = difflib.get_close_matches(seen.topic, images, n=len(images) or 1, cutoff=0.0)
    return f'there are {", ".join(near[:4])}' if near else 'there are no images on any topic'


def _misfits(
    publishers: Iterable[Endpoint], subscribers: Iterable[Endpoint]
) -> Iterable[CameraFault]:
    """Subscribers that get nothing because they ask for more than is offered."""
    for subscriber in subscribers:
        for publisher in publishers:
            if subscriber.kind != publisher.kind:
                continue
            if subscriber.is_reliable and not publisher.is_reliable:
                yield CameraFault(
                    'reliability',
                    f'{subscriber.node} asks for reliable images and {publisher.node} offers best effort: it gets none',
                    f'let {subscriber.node} subscribe with best effort (sensor data; of the detector: reliability: '
                    f'auto), or {publisher.node} publish reliably',
                )
            if subscriber.is_latched and not publisher.is_latched:
                yield CameraFault(
                    'durability',
                    f'{subscriber.node} asks for transient local images and {publisher.node} offers volatile ones: it '
                    'gets none',
                    f'let {subscriber.node} subscribe with durability volatile',
                )


def _silence(seen: SeenTopic, publishers: Sequence[Endpoint]) -> CameraFault:
    return CameraFault(
        'silent camera',
        f'{_names(publishers)} publishes {seen.topic}, and no image came in {seen.watched_s:.1f} s',
        'see whether the driver has a device, is active (ros2 lifecycle get NODE) or waits for a trigger. Where '
        f'`ros2 topic hz` on the machine of the camera shows images: {_ROOM}',
    )


def _pixels(arrivals: Sequence[Arrival]) -> list[CameraFault]:
    """Images that the detector rejects."""
    bad = [arrival for arrival in arrivals if arrival.problem]
    if not bad:
        return []
    problem = bad[0].problem
    is_encoding = 'encoding is' in problem
    return [
        CameraFault(
            'encoding' if is_encoding else 'image layout',
            f'{len(bad)} of {len(arrivals)} images cannot be read: {problem}',
            'set the pixel format of the driver to bgr8, rgb8 or yuv422_yuy2'
            if is_encoding
            else 'mend the driver: step is the bytes of a row with its padding, and data holds height rows of it',
        )
    ]


def _lost(arrivals: Sequence[Arrival], publisher: Endpoint) -> list[CameraFault]:
    """Images that were published and did not come."""
    numbers = [arrival.number for arrival in arrivals if arrival.number is not None]
    published = numbers[-1] - numbers[0] + 1 if numbers else 0
    missing = published - len(numbers)
    if missing <= _MOST_MISSING * published or published < _LEAST_IMAGES:
        return []
    size = int(np.median([arrival.size_bytes for arrival in arrivals]))
    is_large = size > _SEGMENT_BYTES / 2
    return [
        CameraFault(
            'shared memory' if is_large else 'lost images',
            f'{missing} of {published} published images did not come, of {size / 1e6:.1f} MB each, '
            f'{"reliable" if publisher.is_reliable else "best effort"}'
            + (', and Fast DDS shares 0.5 MB by default' if is_large else ''),
            _ROOM
            if is_large
            else 'let the driver publish reliably on this machine; over a network send compressed images at a lower rate',
        )
    ]


def _stamps(seen: SeenTopic) -> list[CameraFault]:
    """Stamps that say nothing about when an image was taken."""
    stamps = np.array([arrival.stamp_s for arrival in seen.arrivals])
    ages = np.array([arrival.arrived_s for arrival in seen.arrivals]) - stamps
    age_s = float(np.median(ages))
    if not stamps.any():
        return [
            CameraFault(
                'zero stamps',
                'every stamp is zero',
                'let the driver set header.stamp to the time of capture; the detector counts from the arrival meanwhile',
            )
        ]
    if len(stamps) > 2 and np.ptp(stamps) == 0.0:
        return [
            CameraFault(
                'constant stamps',
                f'{len(stamps)} images have one stamp',
                'let the driver set header.stamp anew for each image',
            )
        ]
    steps = np.diff(stamps)
    if (steps < 0.0).any():
        return [
            CameraFault(
                'stamps go back',
                f'{(steps < 0.0).sum()} of {len(steps)} stamps lie before the one before, by up to '
                f'{-steps.min() * 1000:.0f} ms',
                'do not loop a bag without restarting the nodes; a driver with several threads must publish in order',
            )
        ]
    if age_s > OLDEST_S:
        return [
            CameraFault(
                'old stamps',
                f'images are {age_s:.0f} s old by their stamps, as from a bag, '
                + ('and /clock is published' if seen.has_clock else 'and nobody publishes /clock'),
                'start the nodes with use_sim_time:=true'
                + ('' if seen.has_clock else ' and play the bag with `ros2 bag play --clock`')
                + '; or play it by bag_player of this package, which moves the stamps to now',
            )
        ]
    if age_s < -_FUTURE_S:
        return [
            CameraFault(
                'future stamps',
                f'stamps lie {-age_s * 1000:.0f} ms in the future',
                'set the clocks of camera and computer by one source (chrony, PTP), or let the driver stamp at arrival',
            )
        ]
    return []


def _rhythm(arrivals: Sequence[Arrival]) -> list[CameraFault]:
    """Images that do not come as regularly as a camera takes them."""
    if len(arrivals) < _LEAST_IMAGES:
        return []
    stamps = np.diff([arrival.stamp_s for arrival in arrivals])
    came = np.diff([arrival.arrived_s for arrival in arrivals])
    period_s = float(np.percentile(stamps, 25))  # where every other one is missing, too
    if period_s <= 0.0:
        return []
    gaps = np.round(stamps / period_s) - 1.0
    on_grid = np.abs(stamps / period_s - gaps - 1.0) < _JITTER
    dropped = int(gaps[on_grid & (gaps > 0.0)].sum())
    if dropped > _MOST_MISSING * (dropped + len(arrivals)) and on_grid.mean() > 0.8:
        return [
            CameraFault(
                'dropped images',
                f'the driver dropped {dropped} of {dropped + len(arrivals)} images at {1 / period_s:.1f} Hz',
                'exposure, USB bandwidth or the processor of the driver are too slow for the rate: lower rate or size',
            )
        ]
    jitter_s = float(np.percentile(np.abs(stamps - np.median(stamps)), 80))
    if jitter_s > _JITTER * period_s and np.corrcoef(stamps, came - stamps)[0, 1] < -_LIKENESS:
        return [
            CameraFault(
                'jittering stamps',
                f'stamps are {jitter_s * 1000:.0f} ms off their distance of {period_s * 1000:.0f} ms, and the images do '
                'not come as they say',
                'let the driver stamp by the clock of the camera or of the capture (V4L2 buffer time), not of a request '
                'or a callback',
            )
        ]
    return []


def _names(ends: Iterable[Endpoint]) -> str:
    return ', '.join(sorted(end.node for end in ends))
