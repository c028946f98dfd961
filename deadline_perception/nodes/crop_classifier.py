"""The lifecycle node `crop_classifier`: the meaning of detected signs and the colour of lights, before the same
deadline.

It keeps the newest images, and as detections come takes the image of their stamp, cuts their boxes out, and classifies
as many as what is left of the budget allows, each at the largest level that fits. Every message of detections is
answered by one: boxes for which there was no time, or no image, go on as they came, and are counted.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from rclpy.lifecycle import LifecycleState, TransitionCallbackReturn
from sensor_msgs.msg import CompressedImage, Image
from vision_msgs.msg import (
    Detection2D,
    Detection2DArray,
    ObjectHypothesis,
    ObjectHypothesisWithPose,
)

from deadline_perception.core.detections import Classification
from deadline_perception.core.images.image_message import ImageError
from deadline_perception.core.share_folder import share_folder
from deadline_perception.core.stopwatch import now_ms
from deadline_perception.engines.choice import ENGINES
from deadline_perception.extras.several_networks.classifier.classes import (
    CLASS_NAMES,
    REFINED,
    possible_classes,
)
from deadline_perception.extras.several_networks.crop_round import CropClassifier, importance_order
from deadline_perception.nodes.detector_parameters import rows
from deadline_perception.nodes.health import Level, Report, report_of
from deadline_perception.nodes.image_input import ImageInput
from deadline_perception.nodes.managed_node import ManagedNode
from deadline_perception.nodes.message_intake import THROTTLE_S, MessageIntake
from deadline_perception.nodes.messages import best_hypothesis, box_xyxy_px, stamp_to_ns, to_bgr
from deadline_perception.nodes.parameters import Parameter, declare
from deadline_perception.nodes.process import run_node
from deadline_perception.nodes.service_quality import RESULTS
from deadline_perception.nodes.stamp_cache import StampCache
from deadline_perception.runtime.conditions import ConditionTracker
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.image_flow import ImageAge
from deadline_perception.runtime.job import Job, StampReading
from deadline_perception.runtime.loading import LoadedTask, NetworkOptions, SetupError, load_task
from deadline_perception.runtime.watchdog import Act, Watchdog
from deadline_perception.timing.time_model import Reserve

PARAMETERS = (
    Parameter(
        'model',
        'crop_classifier',
        'Weights of a nested classifier: a safetensors file, or the name of one in models/.',
        read_only=True,
    ),
    *rows(
        'autostart',
        'image_transport',
        'reliability',
        'profile',
        'device',
        'threads',
        'default_budget_ms',
        'budget_timeout_ms',
        read_only=True,
        waits_for='',
    ),
    Parameter(
        'engine',
        'auto',
        'What runs the segments on the CPU, as for the detector.',
        choices=ENGINES,
        read_only=True,
    ),
    Parameter(
        'extra_ms',
        0.0,
        "Time after the detector's deadline that may be taken. 0: only what the detector leaves "
        'of the budget.',
        'ms',
        0.0,
        1000.0,
    ),
)
_LEAST_RESERVE_MS, _LONGEST_RESERVE_MS = 2.0, 15.0
_CACHED_IMAGES = 8  # until their detections come
_LEAST_SCORE = (
    0.2  # of a detection: what is less likely there than this takes no time of the others
)
_LEAST_SIZE_PX = 8.0  # of the longer side: smaller signs cannot be read
_LEAST_AGREEMENT = 0.5  # probability of the classes that the detector's class may be, below which the two contradict
_SHOWN = 3  # hypotheses of the classifier that are published
_STOP_TIMEOUT_S = 3.0
_NO_IMAGE, _LATE = (
    'missing_images',
    'late_rounds',
)  # why detections are passed on when their time is up


def refined(
    detection: Detection2D, scores: Sequence[float], class_names: Sequence[str]
) -> Detection2D | None:
    """A detection with what the classifier says put before what the detector said; None where they contradict.

    The score of a hypothesis is the detector's, times its share among the classes that the detector's class may be.

    Args:
        detection: with at least one hypothesis, whose class the classifier refines.
        scores: of the classifier, one per class; they add up to 1.
        class_names: what the scores stand for.
    """
    best = best_hypothesis(detection)
    possible = {
        name: float(scores[class_names.index(name)]) for name in possible_classes(best.class_id)
    }
    agreed = sum(possible.values())
    if agreed < _LEAST_AGREEMENT:
        return None
    if best.class_id in possible:
        return detection
    found = sorted(possible, key=possible.get, reverse=True)[:_SHOWN]
    pose = detection.results[0].pose
    hypotheses = [
        ObjectHypothesisWithPose(
            hypothesis=ObjectHypothesis(
                class_id=name, score=min(1.0, best.score * possible[name] / agreed)
            ),
            pose=pose,
        )
        for name in found
    ]
    return Detection2D(
        header=detection.header,
        results=[*hypotheses, *detection.results],
        bbox=detection.bbox,
        id=detection.id,
    )


class CropClassifierNode(ManagedNode):
    """See the module. Publishes `~/detections`, one message for each that the detector publishes."""

    def __init__(self) -> None:
        super().__init__('crop_classifier')
        self._values = declare(self, PARAMETERS)
        self._worker: Executor | None = None
        self._hung: Executor | None = (
            None  # of the last activation: while it is at work, there is no next
        )
        self._loaded: LoadedTask | None = None
        self._problem = ''
        self._images_in: ImageInput | None = None
        self._intake = MessageIntake(self)
        self._counts: Counter[str] = Counter()
        self._reported: Counter[str] = Counter()
        self._levels: Counter[str] = Counter()
        self._lock = (
            threading.Lock()
        )  # of images and open rounds; nothing is computed or published under it
        self._begin(self._values['autostart'], self._values['device'])

    # --- lifecycle ---

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Loads network, profile and accuracies, and warms every segment."""
        names = ('model', 'profile', 'device', 'engine', 'threads')
        options = NetworkOptions(**{name: self._values[name] for name in names})
        self._worker = Executor('crops')
        try:
            self._loaded = self._worker.do(lambda: load_task(options, share_folder() / 'models'))
            self._check_network()
        except (Exception, SystemExit) as error:  # whatever a network does as it is loaded
            return self._refuse(error)
        for warning in (*self._loaded.notices, *self._loaded.degraded):
            self.get_logger().warning(warning)
        self._classifier = CropClassifier(self._loaded.task)
        self._publish = self._output(Detection2DArray, '~/detections')
        self._health.hardware_id = str(self._loaded.facts)
        return super().on_configure(state)

    def _check_network(self) -> None:
        task = self._loaded.task
        missing = [name for name in CLASS_NAMES if name not in task.network.class_names]
        if task.result_type is not Classification or missing:
            raise SetupError(
                f'model is {self._values["model"]!r}, which gives {task.result_type.__name__} of '
                f'{", ".join(task.network.class_names[:8])}, expected a classifier of crops that knows '
                f'{", ".join(missing[:8] or CLASS_NAMES[:8])}'
            )

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Starts to listen and to work."""
        values = self._values
        self._counts.clear()
        self._reported.clear()
        self._levels.clear()
        self._ages = ImageAge(self.get_parameter('use_sim_time').value)
        self._conditions = ConditionTracker(
            default_budget_ms=values['default_budget_ms'],
            budget_timeout_ms=values['budget_timeout_ms'],
        )
        self._reserve = Reserve(_LEAST_RESERVE_MS, _LONGEST_RESERVE_MS, quantile=0.95)
        self._images: StampCache[Image | CompressedImage] = StampCache(_CACHED_IMAGES)
        # Rounds of detections that neither the worker nor the watchdog has taken; the reason of each says what it
        # waits for.
        self._open: list[Job] = []
        self._watchdog = Watchdog(self._fail)
        self._watchdog.watch(self._look)
        result = super().on_activate(state)
        # Two images wait, since those of detections lie some frames back.
        self._images_in = ImageInput(
            self,
            'image',
            values['image_transport'],
            values['reliability'],
            on_image=self._on_image,
            depth=2,
        )
        self._intake.listen(
            Detection2DArray,
            'detector/detections',
            self._on_detections,
            RESULTS,
            on_refused=self._on_refused,
        )
        self._intake.listen_to_conditions(self._conditions)
        return result

    def _halt(self) -> None:
        if self._images_in is None:
            return
        self._intake.close()
        self._images_in.close()
        self._images_in = None
        for one in list(self._open):
            if one.reason == _NO_IMAGE and self._claim(one):
                self._pass_on(one, _NO_IMAGE)
        self._hung = None
        if not self._worker.wait_until_idle(_STOP_TIMEOUT_S):  # what is at work is published first
            self._hung = self._worker
            self.get_logger().error(
                f'the network did not let go of a crop within {_STOP_TIMEOUT_S:.0f} s'
            )
        self._watchdog.stop()

    def _still_hangs(self) -> bool:
        """See `ManagedNode`."""
        return self._hung is not None and not self._hung.wait_until_idle(0.0)

    def _release(self) -> None:
        super()._release()
        self._loaded = None
        if self._worker is not None:
            self._worker.close(0.0)
            self._worker = None

    # --- what comes in ---

    def _on_image(self, message: Image | CompressedImage, waited_ns: int, left_out: int) -> None:
        stamp_ns = stamp_to_ns(message.header.stamp)
        if stamp_ns <= 0:  # it has none, and belongs to no detections
            return
        with self._lock:
            one = next(
                (
                    one
                    for one in self._open
                    if one.reason == _NO_IMAGE and one.stamp.stamp_ns == stamp_ns
                ),
                None,
            )
            if one is None:
                self._images.put(stamp_ns, message)
        if one is not None:
            self._submit(one, message)

    def _on_detections(self, message: Detection2DArray) -> None:
        stamp_ns = stamp_to_ns(message.header.stamp)
        age = self._ages.read(stamp_ns, self.get_clock().now().nanoseconds)
        if age.reason:
            self.get_logger().warning(
                f'{age.reason}; the deadline counts from the arrival',
                throttle_duration_sec=THROTTLE_S,
            )
        conditions = self._conditions.now()
        one = Job(message, now_ms(), age)
        one.conditions = conditions
        one.deadline_ms = one.captured_ms + (conditions.budget_ms + self._values['extra_ms'])
        one.until_ms = one.deadline_ms - self._reserve.reserve_ms
        with self._lock:
            image = self._images.take(stamp_ns) if stamp_ns > 0 else None
            one.reason = _NO_IMAGE if image is None else _LATE
            self._open.append(one)
        if image is not None:
            self._submit(one, image)
        elif stamp_ns <= 0 and self._claim(one):  # no image will belong to it
            self._pass_on(one, _NO_IMAGE)
        self._watchdog.expect(one.until_ms)

    def _on_refused(self, message: Detection2DArray) -> None:
        self._pass_on(Job(message, now_ms(), StampReading(math.nan, '')), 'refused_detections')

    # --- answers ---

    def _look(self, at_ms: float) -> tuple[float, Act | None]:
        """See `FramePipeline.look`: passes on what has waited for its image, or for the network, until its deadline."""
        with self._lock:
            one = min(self._open, key=lambda one: one.until_ms, default=None)
            if one is None or one.until_ms > at_ms:
                return math.inf if one is None else one.until_ms, None
            self._open.remove(one)
        return at_ms, partial(self._pass_on, one, one.reason)

    def _claim(self, one: Job) -> bool:
        """For an answer. Returns whether nobody has given one."""
        with self._lock:
            is_open = one in self._open
            if is_open:
                self._open.remove(one)
            return is_open

    def _pass_on(self, one: Job, reason: str) -> None:
        """Publishes detections as they came, and counts why."""
        self._counts[reason] += 1
        self._publish(one.message)

    def _submit(self, one: Job, image: Image | CompressedImage) -> None:
        one.reason = _LATE
        self._worker.submit(partial(self._answer, one, image)).add_done_callback(
            partial(self._ended, one)
        )

    def _ended(self, one: Job, future: Future) -> None:
        """On the worker: a round that failed is passed on all the same, and the next one is served."""
        error = future.exception()
        if error is not None:
            self._fail(error)
            self._pass_on(one, 'failed_rounds')

    def _fail(self, error: BaseException) -> None:
        self._problem = f'a round failed: {type(error).__name__}: {error}'
        self.get_logger().error(self._problem, throttle_duration_sec=THROTTLE_S)

    def _answer(self, one: Job, image: Image | CompressedImage) -> None:
        """On the worker: classifies what the time allows and publishes."""
        message = self._classified(one, image) if self._claim(one) else None
        if message is not None:
            begun_ms = now_ms()
            self._publish(message)
            self._reserve.observe(now_ms() - begun_ms)
            self._counts['rounds'] += 1

    def _classified(self, one: Job, image: Image | CompressedImage) -> Detection2DArray | None:
        """The message to publish; None where the detections were passed on."""
        detections = one.message.detections
        chosen = self._chosen(detections)
        if not chosen:
            return one.message
        if now_ms() >= one.until_ms:
            self._pass_on(one, _LATE)
            return None
        try:
            pixels = to_bgr(image)
        except ImageError as error:
            self._problem = f'image rejected: {error}'
            self._pass_on(one, 'rejected_images')
            return None
        boxes = [box_xyxy_px(detections[at]) for at in chosen]
        order = importance_order(boxes, [best_hypothesis(detections[at]).class_id for at in chosen])
        found = self._classifier.run(
            pixels, boxes, order, until_ms=one.until_ms, slowdown=one.conditions.slowdown
        )
        names, answers = self._loaded.task.network.class_names, list(detections)
        for at, result, path in zip(chosen, found.results, found.paths):
            if result is None:
                continue
            self._levels[str(path)] += 1
            answer = refined(detections[at], result.scores, names)
            self._counts['contradicted' if answer is None else 'classified'] += 1
            answers[at] = detections[at] if answer is None else answer
        self._counts['refused_boxes'] += found.refused
        self._counts['out_of_time'] += (
            len(chosen) - found.refused - sum(one is not None for one in found.results)
        )
        return Detection2DArray(header=one.message.header, detections=answers)

    def _chosen(self, detections: Sequence[Detection2D]) -> list[int]:
        """Places of the detections that are to be classified."""
        chosen = []
        for at, detection in enumerate(detections):
            best = best_hypothesis(detection) if detection.results else None
            if (
                best is None
                or best.score < _LEAST_SCORE
                or max(detection.bbox.size_x, detection.bbox.size_y) < _LEAST_SIZE_PX
            ):
                continue
            if best.class_id in REFINED or best.class_id in CLASS_NAMES:
                chosen.append(at)
            else:
                self._counts['unknown_classes'] += 1
        return chosen

    # --- diagnostics ---

    def _report(self) -> Report:
        counts = self._counts.copy()
        values = {
            'state': self._state,
            **{
                name: counts[name]
                for name in (
                    'rounds',
                    'classified',
                    'contradicted',
                    'out_of_time',
                    _LATE,
                    _NO_IMAGE,
                    'rejected_images',
                    'failed_rounds',
                    'refused_boxes',
                    'refused_detections',
                    'unknown_classes',
                )
            },
            'refused_messages': self._intake.refused,
            'levels': ' '.join(
                f'{name}:{count}' for name, count in sorted(self._levels.copy().items())
            ),
        }
        if self._state != 'active':
            return Report(Level.OK, self._state, values)
        calibrator, conditions = self._loaded.task.times.calibrator, self._conditions.now()
        values |= {
            'budget_ms': conditions.budget_ms,
            'images_without_detections': self._images.unused,
            'middleware_lost': self._images_in.flow.lost,
            'calibration_factor': calibrator.factor,
            'bound_misses': calibrator.misses,
            'bound_crops': calibrator.frames,
            'slowdown': conditions.slowdown,
        }
        new, self._reported = counts - self._reported, counts
        concerns = [
            f'{new[name]} {words}'
            for name, words in (
                (_NO_IMAGE, 'messages of detections had no image in time'),
                (_LATE, 'came when their deadline had passed'),
                ('out_of_time', 'boxes did not fit into the time left'),
                ('failed_rounds', 'rounds failed'),
                ('rejected_images', 'images cannot be used'),
            )
            if new[name]
        ]
        problem, self._problem = self._problem, ''
        concerns += [
            *self._images_in.concerns,
            self._intake.concern,
            problem,
            *self._loaded.degraded,
        ]
        return report_of(
            values,
            'classifying' if counts['rounds'] else 'active, no detections yet',
            concerns=concerns,
            faults=(self._images_in.fault,),
        )


def main() -> int:
    return run_node('crop_classifier', CropClassifierNode)
