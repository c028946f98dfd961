"""Messages of a bag made from and turned into the package's records, without ROS."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from deadline_perception.extras.data.records import GroundTruth

CAMERA_FRAME = (
    'camera_optical_frame'  # z forward, x right, y down, as REP 103 has it for what a camera sees
)
VEHICLE_FRAME = 'base_link'  # x forward, REP 105


class BagMessages:
    """Builds messages with the classes of a rosbags type store; a stamp that does not fit into them is a ValueError."""

    def __init__(self, types: object) -> None:
        self.types = types

    def make(self, msgtype: str, **fields: object) -> object:
        """A message of a type such as `sensor_msgs/msg/Image`."""
        return self.types.types[msgtype](**fields)

    def header(self, stamp_ns: int, frame_id: str = CAMERA_FRAME) -> object:
        seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
        if not 0 <= seconds < 2**31:
            raise ValueError(f'stamp is {stamp_ns} ns, expected at least 0 and less than 2^31 s')
        stamp = self.make('builtin_interfaces/msg/Time', sec=seconds, nanosec=nanoseconds)
        return self.make('std_msgs/msg/Header', stamp=stamp, frame_id=frame_id)

    def image(self, stamp_ns: int, image: np.ndarray) -> object:
        """sensor_msgs/Image of uint8 `[height, width, 3]` BGR."""
        height, width = image.shape[:2]
        return self.make(
            'sensor_msgs/msg/Image',
            header=self.header(stamp_ns),
            height=height,
            width=width,
            encoding='bgr8',
            is_bigendian=0,
            step=3 * width,
            data=np.ascontiguousarray(image).reshape(-1),
        )

    def compressed_image(self, stamp_ns: int, data: np.ndarray) -> object:
        """sensor_msgs/CompressedImage of a JPEG file's bytes, uint8 `[N]`."""
        return self.make(
            'sensor_msgs/msg/CompressedImage',
            header=self.header(stamp_ns),
            format='bgr8; jpeg compressed bgr8',
            data=data,
        )

    def camera_info(
        self, stamp_ns: int, width: int, height: int, matrix: np.ndarray | None
    ) -> object:
        """sensor_msgs/CameraInfo; without intrinsics all matrices are zero, which means uncalibrated."""
        k = np.zeros((3, 3)) if matrix is None else np.asarray(matrix, dtype=np.float64)
        known = matrix is not None
        region = self.make(
            'sensor_msgs/msg/RegionOfInterest',
            x_offset=0,
            y_offset=0,
            height=0,
            width=0,
            do_rectify=False,
        )
        return self.make(
            'sensor_msgs/msg/CameraInfo',
            header=self.header(stamp_ns),
            height=height,
            width=width,
            distortion_model='plumb_bob' if known else '',
            d=np.zeros(5 if known else 0),
            k=k.reshape(-1),
            r=(np.eye(3) if known else np.zeros((3, 3))).reshape(-1),
            p=np.hstack([k, np.zeros((3, 1))]).reshape(-1),
            binning_x=0,
            binning_y=0,
            roi=region,
        )

    def speed(self, stamp_ns: int, speed_mps: float) -> object:
        """geometry_msgs/TwistStamped that moves along x."""

        def vector(x: float) -> object:
            return self.make('geometry_msgs/msg/Vector3', x=float(x), y=0.0, z=0.0)

        twist = self.make('geometry_msgs/msg/Twist', linear=vector(speed_mps), angular=vector(0.0))
        return self.make(
            'geometry_msgs/msg/TwistStamped',
            header=self.header(stamp_ns, VEHICLE_FRAME),
            twist=twist,
        )

    def ground_truth(
        self, stamp_ns: int, ground_truth: GroundTruth, class_names: tuple[str, ...]
    ) -> object:
        """vision_msgs/Detection2DArray: the class by name, score 1, or 0 for a crowd region."""
        boxes, names = (
            ground_truth.boxes_xyxy_px.tolist(),
            [class_names[label] for label in ground_truth.labels],
        )
        return self.detections(stamp_ns, zip(boxes, names, np.where(ground_truth.crowd, 0.0, 1.0)))

    def detections(
        self, stamp_ns: int, objects: Iterable[tuple[Sequence[float], str, float]]
    ) -> object:
        """vision_msgs/Detection2DArray of boxes xyxy in px, their classes' names and their scores."""
        header = self.header(stamp_ns)
        detections = []
        for number, (box, name, score) in enumerate(objects):
            hypothesis = self.make(
                'vision_msgs/msg/ObjectHypothesis', class_id=name, score=float(score)
            )
            result = self.make(
                'vision_msgs/msg/ObjectHypothesisWithPose',
                hypothesis=hypothesis,
                pose=self._no_pose(),
            )
            detections.append(
                self.make(
                    'vision_msgs/msg/Detection2D',
                    header=header,
                    results=[result],
                    bbox=self._box(*box),
                    id=str(number),
                )
            )
        return self.make('vision_msgs/msg/Detection2DArray', header=header, detections=detections)

    def _box(self, left: float, top: float, right: float, bottom: float) -> object:
        position = self.make('vision_msgs/msg/Point2D', x=(left + right) / 2, y=(top + bottom) / 2)
        centre = self.make('vision_msgs/msg/Pose2D', position=position, theta=0.0)
        return self.make(
            'vision_msgs/msg/BoundingBox2D', center=centre, size_x=right - left, size_y=bottom - top
        )

    def _no_pose(self) -> object:
        position = self.make('geometry_msgs/msg/Point', x=0.0, y=0.0, z=0.0)
        orientation = self.make('geometry_msgs/msg/Quaternion', x=0.0, y=0.0, z=0.0, w=1.0)
        pose = self.make('geometry_msgs/msg/Pose', position=position, orientation=orientation)
        return self.make('geometry_msgs/msg/PoseWithCovariance', pose=pose, covariance=np.zeros(36))


def speed_of(message: object) -> float:
    """Horizontal speed of a TwistStamped or Odometry message, m/s, never negative."""
    twist = message.twist.twist if hasattr(message.twist, 'twist') else message.twist
    return math.hypot(twist.linear.x, twist.linear.y)


def class_names_of(messages: Iterable[object]) -> tuple[str, ...]:
    """The classes that Detection2DArrays name, in alphabetical order."""
    names = {
        detection.results[0].hypothesis.class_id
        for message in messages
        for detection in message.detections
        if detection.results
    }
    return tuple(sorted(names))


def objects_of(
    message: object, class_names: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Boxes `[N, 4]` xyxy in px, labels and scores of the objects of a Detection2DArray that have a class."""
    marked = [detection for detection in message.detections if detection.results]
    boxes = [
        (
            box.center.position.x - box.size_x / 2,
            box.center.position.y - box.size_y / 2,
            box.center.position.x + box.size_x / 2,
            box.center.position.y + box.size_y / 2,
        )
        for box in (detection.bbox for detection in marked)
    ]
    hypotheses = [detection.results[0].hypothesis for detection in marked]
    return (
        np.array(boxes, np.float64).reshape(-1, 4),
        np.array([class_names.index(hypothesis.class_id) for hypothesis in hypotheses], np.int64),
        np.array([hypothesis.score for hypothesis in hypotheses], np.float64),
    )


def ground_truth_of(message: object, class_names: Sequence[str]) -> GroundTruth:
    """Known objects of a Detection2DArray as `BagMessages.ground_truth` writes it."""
    boxes, labels, scores = objects_of(message, class_names)
    return GroundTruth(boxes, labels, scores == 0.0)
