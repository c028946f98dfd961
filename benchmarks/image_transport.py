"""Camera images that reach a subscriber in another process, and how late, by the middleware settings of the camera.

    python benchmarks/image_transport.py [--images 75] [--rate-hz 25]

Two real processes: one publishes images as a camera driver does, with Fast DDS's defaults or with config/fastdds.xml,
the other subscribes as the nodes of this package do, with config/fastdds.xml. Prints a table and writes
results/image_transport.json.
"""

from __future__ import annotations

import array
import itertools
import multiprocessing
import os
import random
import statistics
import time

from parts.harness import Run, option, run_script

# Bytes of a message: raw RGB of 640x480 px, of 1280x720 px, and a JPEG of the latter.
SIZES = {'raw 640x480': 640 * 480 * 3, 'raw 1280x720': 1280 * 720 * 3, 'JPEG 1280x720': 200_000}
RELIABILITIES = ('best_effort', 'reliable')
CAMERA_SETTINGS = ('default', 'fastdds.xml')
TOPIC = '/image_transport_benchmark'
# Time to find each other; time without an image after which no more come.
FIND_S, SILENCE_S = 15.0, 3.0


def join_ros(settings: str, domain: int, reliability: str):
    """A node of this process with one of CAMERA_SETTINGS, and the quality of service of its topic."""
    os.environ.update(ROS_DOMAIN_ID=str(domain), ROS_AUTOMATIC_DISCOVERY_RANGE='LOCALHOST')
    from deadline_perception.nodes import middleware

    for variable in middleware.VARIABLES:
        os.environ.pop(variable, None)
    if settings != 'default':
        middleware.make_room_for_images()
    import rclpy
    from rclpy.qos import QoSProfile, QoSReliabilityPolicy

    rclpy.init()
    return rclpy.create_node(f'node_{os.getpid()}'), QoSProfile(
        depth=5, reliability=QoSReliabilityPolicy[reliability.upper()]
    )


def publish(
    settings: str, domain: int, reliability: str, size_bytes: int, images: int, rate_hz: float
) -> None:
    """The camera: waits for the subscriber, then publishes at a fixed rate."""
    from sensor_msgs.msg import Image

    node, quality_of_service = join_ros(settings, domain, reliability)
    publisher = node.create_publisher(Image, TOPIC, quality_of_service)
    give_up = time.monotonic() + FIND_S
    while publisher.get_subscription_count() == 0 and time.monotonic() < give_up:
        time.sleep(0.05)
    time.sleep(1.0)
    message = Image(data=array.array('B', bytes(size_bytes)))
    begin = time.monotonic()
    for index in range(images):
        time.sleep(max(0.0, begin + index / rate_hz - time.monotonic()))
        message.header.stamp.sec, message.header.stamp.nanosec = divmod(
            time.monotonic_ns(), 1_000_000_000
        )
        publisher.publish(message)
    time.sleep(2.0)  # a reliable publisher sends lost parts again


def receive(domain: int, reliability: str, found: multiprocessing.Queue) -> None:
    """The subscriber: when no more come, puts how long each image was on its way, ms, and how many the middleware
    reported lost into `found`."""
    import rclpy
    from sensor_msgs.msg import Image

    from deadline_perception.nodes.service_quality import subscription_events

    node, quality_of_service = join_ros('fastdds.xml', domain, reliability)
    ways_ms: list[float] = []
    lost: list[int] = []

    def on_image(message: Image) -> None:
        sent_ns = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        ways_ms.append((time.monotonic_ns() - sent_ns) / 1e6)

    node.create_subscription(
        Image,
        TOPIC,
        on_image,
        quality_of_service,
        event_callbacks=subscription_events(node, TOPIC, on_lost=lost.append),
    )
    end = time.monotonic() + FIND_S
    while time.monotonic() < end:
        before = len(ways_ms)
        rclpy.spin_once(node, timeout_sec=0.2)
        if len(ways_ms) > before:
            end = time.monotonic() + SILENCE_S
    found.put((ways_ms, sum(lost)))


def main(run: Run) -> None:
    args = run.args
    processes = multiprocessing.get_context('spawn')
    found, rows = processes.Queue(), []
    print('image                  reliability   camera        arrived, median and longest way')
    for size, reliability, camera in itertools.product(SIZES, RELIABILITIES, CAMERA_SETTINGS):
        domain = random.SystemRandom().randrange(1, 102)
        pair = (
            processes.Process(target=receive, args=(domain, reliability, found)),
            processes.Process(
                target=publish,
                args=(camera, domain, reliability, SIZES[size], args.images, args.rate_hz),
            ),
        )
        for process in pair:
            process.start()
        ways_ms, lost = found.get(timeout=args.images / args.rate_hz + 60.0)
        for process in pair:
            process.join()
        median, longest = (
            (round(statistics.median(ways_ms), 1), round(max(ways_ms), 1))
            if ways_ms
            else (None, None)
        )
        rows.append(
            {
                'image': size,
                'megabytes': SIZES[size] / 1e6,
                'reliability': reliability,
                'camera': camera,
                'arrived': len(ways_ms),
                'reported_lost': lost,
                'median_ms': median,
                'longest_ms': longest,
            }
        )
        print(
            f'{size:15} {SIZES[size] / 1e6:.1f} MB {reliability:13} {camera:13} {len(ways_ms)} of {args.images}, '
            f'{lost} reported lost, {median}, {longest} ms',
            flush=True,
        )
    run.write(images=args.images, rate_hz=args.rate_hz, rows=rows)


if __name__ == '__main__':
    run_script(
        main,
        {
            '--images': option(75, least=1),
            '--rate-hz': option(25.0, above=0.0),
        },
    )
