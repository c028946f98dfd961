import asyncio
import gc
import json
import math
import os
import pickle
import re
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from fresh_bounds import fresh_bound
from invented_networks import (
    MAGNIFIER,
    InventedNetwork,
    InventedRun,
    make_classifier,
    make_magnifier,
)
from measurable_network import rough_profile
from plain_images import noise
from python_run import run_python
from waiting import WAIT_S, wait

from deadline_perception.deadline_detector import (
    KEPT_FRAMES,
    MOST_AWAITED,
    CalibrationKeeper,
    DeadlineDetector,
    DetectorHangs,
    QueueFull,
)
from deadline_perception.decision.frontier import FrontierPolicy
from deadline_perception.decision.path_quality import PathQuality
from deadline_perception.networks.model_reference import ModelNotFound
from deadline_perception.runtime import detection_stream, pipeline
from deadline_perception.runtime.detection_stream import NoAnswer, StreamClosed, Superseded
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.job import Outcome
from deadline_perception.runtime.loading import NoProfile
from deadline_perception.runtime.pipeline import FrameRules
from deadline_perception.runtime.task import Task
from deadline_perception.timing.calibration import CalibrationFile
from deadline_perception.timing.path_bound import PathForecast
from deadline_perception.timing.recent_times import LEAST_RATIOS
from deadline_perception.timing.time_model import TimeModel

IMAGE = noise(48, 64)
AMPLE_MS = 20_000.0  # nothing is late by accident on a busy machine


@pytest.fixture(scope='module')
def profile():
    return rough_profile(make_magnifier())


class GatedNetwork(InventedNetwork):
    """One whose frames wait for a gate, and fail where they are told to."""

    def __init__(self) -> None:
        super().__init__(MAGNIFIER, run_type=GatedRun)
        self.gate, self.error = threading.Event(), None
        self.gate.set()


class GatedRun(InventedRun):
    def compute(self, name, key):
        if self.network.error is not None:
            raise self.network.error
        assert self.network.gate.wait(WAIT_S)
        super().compute(name, key)


def task_of(network, profile):
    forecast = PathForecast(profile, network.path_space)
    policy = FrontierPolicy(
        network.path_space, forecast, PathQuality.from_forecast(network.path_space, forecast)
    )
    policy.prepare()
    return Task(network, policy, TimeModel(network.path_space, forecast, fresh_bound()))


@pytest.fixture
def network():
    network = GatedNetwork()
    yield network
    network.gate.set()


@pytest.fixture
def detector(network, profile):
    with DeadlineDetector(task_of(network, profile)) as detector:
        yield detector


def no_threads_but(before):
    wait(lambda: not set(threading.enumerate()) - before)
    return True


def test_an_answer_says_what_was_found_by_which_path_and_whether_in_time(detector):
    answer = detector.detect(IMAGE, AMPLE_MS)
    assert answer.names == ('thing',) and answer.scores.tolist() == pytest.approx([0.9])
    assert answer.boxes_xyxy_px.tolist() == [[16.0, 12.0, 32.0, 24.0]]
    assert (answer.outcome, answer.in_time, answer.feasible) == (Outcome.DETECTED, True, True)
    assert MAGNIFIER.parse(answer.path) in MAGNIFIER and answer.budget_ms == AMPLE_MS
    assert 0.0 < answer.network_ms < answer.latency_ms < AMPLE_MS and answer.bound_ms > 0.0
    assert answer.reason.startswith('bound ') and answer.superseded == 0
    # The time since the capture counts against the budget.
    answer = detector.detect(IMAGE, AMPLE_MS, age_ms=5000.0, stamp_ns=7)
    assert 5000.0 < answer.latency_ms < AMPLE_MS
    assert answer.record.remaining_ms < AMPLE_MS - 5000.0


def test_a_network_that_is_late_is_answered_for_by_tracks_at_the_deadline(detector, network):
    detector.detect(IMAGE, AMPLE_MS, stamp_ns=10**9)
    network.gate.clear()
    answer = detector.detect(IMAGE, 2000.0, stamp_ns=2 * 10**9)
    assert answer.outcome is Outcome.COASTED and not answer.in_time and answer.latency_ms < AMPLE_MS
    assert len(answer.boxes_xyxy_px) == len(answer.names) == 1  # moved on
    network.gate.set()  # until here it computed


@pytest.mark.parametrize('error', [RuntimeError('out of memory'), SystemExit('out of memory')])
def test_a_network_that_fails_is_told_and_the_next_image_is_served(detector, network, error):
    network.error = error
    answer = detector.detect(IMAGE, AMPLE_MS)
    assert answer.outcome is Outcome.COASTED and 'out of memory' in answer.record.failure
    network.error = None
    assert detector.detect(IMAGE, AMPLE_MS).in_time


EMPTY = np.zeros((0, 8, 3), np.uint8)


@pytest.mark.parametrize(
    ('wrong', 'said'),
    [
        ({'image_bgr': EMPTY}, r'image is uint8 \(0, 8, 3\), expected uint8 \[height, width, 3\]'),
        ({'image_bgr': np.zeros((8, 8, 3), np.float32)}, 'image is float32'),
        ({'image_bgr': None}, 'image is NoneType, expected'),
        ({'image_bgr': np.zeros((8, 8), np.uint8)}, r'\(8, 8\)'),
        ({'budget_ms': math.nan}, r'budget is nan ms, expected a time in \(0, 60000\] ms, or None'),
        ({'budget_ms': 0.0}, r'\(0, 60000\] ms'),
        ({'budget_ms': 1e9}, 'budget is'),
        ({'budget_ms': '50'}, "budget is '50' ms, expected a time"),
        ({'budget_ms': np.array([1.0, 2.0])}, r'budget is array\(\[1., 2.\]\) ms'),
        ({'age_ms': math.nan}, r'age of the image is nan ms, expected a time in \[0, 60000\] ms'),
        ({'age_ms': 'old'}, "age of the image is 'old' ms"),
        ({'stamp_ns': -1}, 'stamp is -1 ns'),
        ({'stamp_ns': math.nan}, 'stamp is nan ns .*expected whole numbers of at least 0'),
        ({'stamp_ns': None}, 'stamp is None ns'),
    ],
)
def test_what_cannot_be_answered_is_refused_with_value_and_unit(detector, wrong, said):
    with pytest.raises(ValueError, match=said):
        detector.detect(**{'image_bgr': IMAGE, 'budget_ms': 50.0, **wrong})


def test_what_no_detector_is_made_of_is_refused_and_leaves_no_thread(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path))
    before = set(threading.enumerate())
    missing = r'weights file unheard_of does not exist; expected .* \(.*street'
    with pytest.raises(ModelNotFound, match=missing):
        DeadlineDetector('unheard_of')
    with pytest.raises(NoProfile, match='no latency profile.* Measure one: measure_profile of'):
        DeadlineDetector(make_magnifier(), measures=False)
    for model, options, said in (
        (None, {}, 'model is .*, expected a name, a file, a network'),
        (GatedNetwork, {}, 'model is .*, expected a name, a file, a network'),
        ('street', {'priority': 'high'}, "priority is 'high', expected one of auto, off"),
        ('street', {'classes': 'coco'}, 'the network names its own'),
        (make_magnifier(), {'classes': ('car',)}, 'the network names its own'),
        (make_magnifier(), {'min_score': 2}, r'min_score is 2, expected a number in \[0, 1\]'),
    ):
        with pytest.raises(ValueError, match=said):
            DeadlineDetector(model, **options)
    assert no_threads_but(before)


def test_a_profile_that_cannot_be_kept_serves_this_start(tmp_path, monkeypatch):
    (tmp_path / 'cache').write_text('no folder')
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'cache'))
    with DeadlineDetector(make_classifier()) as detector:
        assert detector.detect(IMAGE, AMPLE_MS).in_time


def test_one_stream_at_a_time_and_detect_opens_its_own(detector):
    detector.detect(IMAGE, AMPLE_MS)
    with detector.stream() as stream:  # takes the place of that of `detect`
        stream.on_contention(3.0, 'monitor')
        answer = stream.detect(IMAGE, AMPLE_MS)
        conditions = answer.record.conditions
        assert answer.in_time
        assert (conditions.slowdown, conditions.contention_source) == (3.0, 'monitor')
        for again in (detector.stream, lambda: detector.detect(IMAGE, AMPLE_MS)):
            with pytest.raises(ValueError, match='a stream of this detector is open'):
                again()
        for wrong in (math.nan, 1.5, '2', -1):
            with pytest.raises(ValueError, match='images were dropped, expected whole numbers'):
                stream.submit(IMAGE, 1, 50.0, dropped=wrong)
        for wrong in (math.nan, 'fast', 0.5, math.inf):
            with pytest.raises(ValueError, match=r'slowdown is .*, expected a factor in \[1,'):
                stream.on_contention(wrong, 'me')
    # Learnt from once it is out: by the frames of every stream.
    assert detector.loaded.task.times.calibrator.frames == 2
    with pytest.raises(StreamClosed, match='the stream is closed'):
        stream.submit(IMAGE, 1, 50.0)
    assert detector.detect(IMAGE, AMPLE_MS).in_time


def test_whose_image_is_replaced_while_it_waits_is_told(detector, network):
    stream, raised = detector.stream(), []
    network.gate.clear()
    stream.submit(IMAGE, 1, AMPLE_MS)
    wait(lambda: stream.pipeline.busy_since_ms is not None)  # the next one is to wait

    def ask():
        with pytest.raises(Superseded, match='took the place of this one') as error:
            stream.detect(IMAGE, AMPLE_MS)
        raised.append(error)

    waiting = threading.Thread(target=ask)
    waiting.start()
    while waiting.is_alive():
        stream.submit(IMAGE, 2, AMPLE_MS)
        time.sleep(0.01)
    assert len(raised) == 1
    network.gate.set()
    assert stream.detect(IMAGE, AMPLE_MS).in_time


def test_a_detector_that_was_halted_or_lost_its_executor_keeps_nobody_waiting(network, profile):
    with Executor() as executor:
        detector = DeadlineDetector(task_of(network, profile), executor=executor)
        detector.detect(IMAGE, AMPLE_MS)
        assert detector.halt()
        assert detector.detect(IMAGE, AMPLE_MS).in_time  # on a stream anew
        unused = DeadlineDetector(task_of(network, profile), executor=executor)
    with pytest.raises(StreamClosed, match='the stream is closed'):
        detector.detect(IMAGE, AMPLE_MS)
    for _ in range(2):
        with pytest.raises(StreamClosed, match='its executor is closed'):
            unused.detect(IMAGE, AMPLE_MS)
    assert executor.watchdog is None


def test_a_late_image_that_ends_while_the_detector_closes_fails_nothing(
    network, profile, capfd, monkeypatch
):
    monkeypatch.setattr(pipeline, 'MAX_COASTED', 0)  # the network goes on with it to its end
    detector = DeadlineDetector(task_of(network, profile))
    network.gate.clear()
    assert not detector.stream(rules=FrameRules()).detect(IMAGE, 30.0).in_time
    closing = threading.Thread(target=detector.close)
    closing.start()
    wait(lambda: detector._pipeline is None)
    gc.collect()  # what nobody has any more goes
    network.gate.set()
    closing.join(WAIT_S)
    assert not closing.is_alive() and 'ReferenceError' not in capfd.readouterr().err


@pytest.mark.parametrize('whole', [True, False])
def test_a_callback_may_close_the_stream_or_detector_it_is_of_which_then_says_so(
    network, profile, caplog, whole
):
    before, closed = set(threading.enumerate()), threading.Event()

    def close(answer):
        detector.close(1000.0) if whole else stream.close()
        closed.set()

    detector = DeadlineDetector(task_of(network, profile))
    stream = detector.stream(close)
    stream.submit(IMAGE, 1, AMPLE_MS)
    assert closed.wait(WAIT_S) and not caplog.text
    detector.close()
    detector.close()
    assert no_threads_but(before)
    for call in (lambda: detector.detect(IMAGE, 50.0), detector.stream):
        with pytest.raises(StreamClosed, match='is closed'):
            call()


def test_a_network_that_hangs_is_told_and_a_close_does_not_wait_for_it(network, profile):
    before = set(threading.enumerate())
    detector = DeadlineDetector(task_of(network, profile))
    network.gate.clear()
    assert detector.detect(IMAGE, 200.0).outcome is Outcome.COASTED
    assert not detector.halt(0.1) and detector.hangs
    with pytest.raises(DetectorHangs, match='still hangs in a frame'):
        detector.stream()
    detector.close(1000.0)
    network.gate.set()
    assert no_threads_but(before) and not detector.hangs


def test_the_state_is_kept_after_some_frames_and_when_asked_or_it_is_said_why_not(tmp_path):
    said, bound = [], fresh_bound()
    file = CalibrationFile(tmp_path / 'factor.json', {'threads': 1})
    keeper = CalibrationKeeper(lambda: (file, bound), said.append)
    for _ in range(KEPT_FRAMES - 1):
        keeper.end_frame()
    assert not file.file.exists() and not keeper.fault
    keeper.end_frame()
    bound.observe(10.0, 11.0)
    keeper.keep()
    keeper.close(20.0)
    assert json.loads(file.file.read_text())['frames'] == 1 and said == [] and keeper.fault
    file.file.write_text('{"something": "else"}')
    keeper = CalibrationKeeper(lambda: (file, bound), said.append)
    keeper.keep()
    keeper.close(20.0)
    assert len(said) == 1 and 'calibration_file cannot be written' in said[0]


@pytest.mark.slow
@pytest.mark.timeout(600)  # seven programs
def test_a_program_that_ends_without_closing_ends_with_its_own_status(tmp_path):
    program = Path(__file__).with_name('unclosed_detector.py')
    expected = {'late': 0, 'interrupted': -2, 'stream': 0, 'error': 1, 'exit': 3, 'at exit': 0}
    run = run_python(program, *expected, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    ends = json.loads(run.stdout)
    statuses = {case: status for case, (status, _) in ends.items()}
    assert statuses == {'at first': expected['late'], **expected}, ends
    assert 'terminate' not in run.stdout
    assert len(list(tmp_path.rglob('profiles/*.json'))) == 1


def test_a_detector_that_is_dropped_says_so_and_leaves_no_thread(profile):
    before = set(threading.enumerate())
    for call in (
        lambda detector: None,
        lambda detector: detector.detect(IMAGE, AMPLE_MS),
        lambda detector: detector.stream(lambda answer: None).submit(IMAGE, 1, AMPLE_MS),
    ):
        with pytest.warns(ResourceWarning, match='dropped without close') as said:
            call(DeadlineDetector(task_of(GatedNetwork(), profile)))
            wait(lambda: gc.collect() >= 0 and len(said) > 0)  # its worker may still have it
        assert no_threads_but(before)


@pytest.mark.parametrize('error', [RuntimeError, SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_that_raises_is_told_and_survived(detector, caplog, error):
    done = threading.Semaphore(0)

    def leave(answer):
        done.release()
        raise error('enough')

    with detector.stream(leave) as stream:
        for number in range(1, 12):
            stream.submit(IMAGE, number, AMPLE_MS)
            assert done.acquire(timeout=WAIT_S)
        assert detector.fault == ''
        assert stream.detect(IMAGE, AMPLE_MS).in_time
    assert stream.failures >= 11 and f'{error.__name__}: enough' in caplog.text
    assert detector.detect(IMAGE, AMPLE_MS).in_time


def test_without_its_threads_an_image_is_refused_and_not_waited_for(detector, monkeypatch):
    monkeypatch.setattr(detection_stream, '_LOST_MS', 0.0)
    detector.detect(IMAGE, AMPLE_MS)
    executor = detector._executor
    executor.watchdog.stop()
    executor.mailbox.close()
    executor._worker.join(WAIT_S)
    said = 'was not answered by its deadline.*the inference thread ended'
    with pytest.raises(NoAnswer, match=said):
        detector.detect(IMAGE, 50.0)


def test_a_fork_is_told_to_make_a_detector_of_its_own(detector):
    detector.detect(IMAGE, AMPLE_MS)
    stream = detector._own_stream
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        for call in (
            lambda: detector.detect(IMAGE, 200.0),
            lambda: stream.detect(IMAGE, 200.0),
            lambda: stream.submit(IMAGE, 1, 200.0),
            lambda: detector.stream(),
            lambda: detector._executor.do(lambda: None),
            lambda: asyncio.run(detector.adetect(IMAGE, 200.0)),
        ):
            try:
                call()
            except (StreamClosed, RuntimeError) as error:
                os.write(sender, b'own' if 'detector of its own in each' in str(error) else b'no')
        detector.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert os.read(receiver, 1000) == b'own' * 6
    assert detector.detect(IMAGE, AMPLE_MS).in_time


def test_an_image_without_a_stamp_neither_has_nor_leaves_objects_of_another_one(detector, network):
    assert len(detector.detect(IMAGE, AMPLE_MS).scores) == 1
    network.error = RuntimeError('damaged')
    assert len(detector.detect(IMAGE, AMPLE_MS, stamp_ns=10**9).scores) == 0
    network.error = None
    assert len(detector.detect(IMAGE, AMPLE_MS, stamp_ns=2 * 10**9).scores) == 1
    network.gate.clear()
    late = detector.detect(IMAGE, 300.0)
    assert (late.outcome, late.in_time, late.names) == (Outcome.COASTED, False, ())
    assert late.boxes_xyxy_px.shape == (0, 4) and late.reason
    assert math.isnan(late.record.evidence_age_ms)
    network.gate.set()
    network.error = RuntimeError('damaged')
    assert len(detector.detect(IMAGE, AMPLE_MS).boxes_xyxy_px) == 0


@pytest.mark.parametrize('age_ms, plan_s', [(0.0, 0.0), (0.0, 0.1), (5000.0, 0.0)])
def test_an_image_of_its_own_that_no_bound_fits_is_answered_late_and_not_refused(
    detector, age_ms, plan_s, monkeypatch
):
    policy, bounds = detector.loaded.task.policy, detector.loaded.task.times.calibrator
    plan = policy.plan
    monkeypatch.setattr(policy, 'plan', lambda *what: time.sleep(plan_s) or plan(*what))
    answer = detector.detect(IMAGE, 1e-3, age_ms=age_ms)
    assert (answer.outcome, answer.in_time, answer.feasible) == (Outcome.LATE, False, False)
    assert answer.names == ('thing',) and answer.path and answer.bound_ms > 0.0
    assert 'not even the cheapest path fits: its bound is' in answer.reason
    wait(lambda: bounds.frames == 1)
    coasted = detector.detect(IMAGE, 1e-3, stamp_ns=10**9)  # of a sequence: at once
    assert (coasted.outcome, coasted.feasible, len(coasted)) == (Outcome.COASTED, False, 0)


def test_an_image_of_its_own_that_no_bound_fits_does_not_wait_for_a_network_that_hangs(
    detector, network, monkeypatch
):
    monkeypatch.setattr(pipeline, 'LATE_GRACE_MS', 50.0)
    network.gate.clear()
    answer = detector.detect(IMAGE, 1e-3)
    assert (answer.outcome, len(answer)) == (Outcome.COASTED, 0) and answer.latency_ms > 50.0
    network.gate.set()  # else its detector waits for it


def test_an_answer_is_told_in_a_line_and_can_leave_the_process(detector):
    answer = detector.detect(IMAGE, None)  # without a limit
    assert answer.in_time and answer.budget_ms == math.inf
    assert re.fullmatch(r'<Answer 1 objects, \S+, [0-9.]+ ms, in time>', repr(answer))
    answer = detector.detect(IMAGE, AMPLE_MS)
    assert re.fullmatch(r'<Answer 1 objects, \S+, [0-9.]+ of 20000 ms, in time>', repr(answer))
    assert len(pickle.dumps(answer)) < 100_000
    other = pickle.loads(pickle.dumps(answer))
    assert other.names == answer.names and other.path == answer.path and other.in_time
    with pytest.raises(ValueError, match='image is NoneType, expected a numpy array'):
        other.draw()
    assert (other.draw(IMAGE) == answer.draw()).all()
    for image in (IMAGE / 255.0, IMAGE.astype(np.uint16) * 257):  # drawn on black, or wrapped
        with pytest.raises(ValueError, match='expected uint8'):
            answer.draw(image)


# --- what programs expect ---


def test_there_is_no_promise_before_bounds_rest_on_frames_and_a_single_image_is_late_till_then(
    detector, network
):
    """Later it is empty by its deadline, as promised ones are."""
    for is_promised in (False, True):
        network.gate.clear()
        opening = threading.Timer(0.6, network.gate.set)
        opening.start()
        answer = detector.detect(IMAGE, 300.0)
        opening.join()
        assert answer.feasible and answer.is_promised == is_promised and not answer.in_time
        assert ('no promise yet' in answer.reason) != is_promised
        assert len(answer) == (0 if is_promised else 1)
        assert answer.outcome is (Outcome.COASTED if is_promised else Outcome.LATE)
        for _ in range(LEAST_RATIOS):
            detector.detect(IMAGE, AMPLE_MS)


def test_answers_come_one_for_each_image_of_a_recording_at_its_rate(detector):
    answers = list(detector.answers([IMAGE] * 3, AMPLE_MS, rate_hz=4.0))
    stamps = [answer.record.stamp.stamp_ns for answer in answers]
    assert stamps == [250_000_000, 500_000_000, 750_000_000]
    assert [answer.ids.tolist() for answer in answers] == [[1]] * 3
    for answer in detector.answers(iter([IMAGE, IMAGE]), AMPLE_MS):  # a camera, left early
        assert answer.in_time and answer.record.stamp.stamp_ns > 10**18
        break
    assert detector.detect(IMAGE, AMPLE_MS).in_time
    for rate_hz in (0.0, -1.0, 1e-300, math.nan, '9'):
        with pytest.raises(ValueError, match='rate is .* Hz, expected more than 1e-9'):
            list(detector.answers([IMAGE], AMPLE_MS, rate_hz=rate_hz))


def test_asyncio_awaits_answers_a_full_queue_says_so_and_a_cancelled_request_leaves_its_place(
    detector, network
):
    async def serve():
        network.gate.clear()
        requests = [detector.adetect(IMAGE, AMPLE_MS) for _ in range(MOST_AWAITED)]
        waiting = list(map(asyncio.create_task, requests))
        await asyncio.sleep(0.1)  # the loop goes on
        with pytest.raises(QueueFull, match='8 images are awaited'):
            await detector.adetect(IMAGE, AMPLE_MS)
        network.gate.set()
        return await asyncio.gather(*waiting)

    assert [answer.in_time for answer in asyncio.run(serve())] == [True] * MOST_AWAITED
    assert asyncio.run(detector.adetect(IMAGE, AMPLE_MS)).in_time  # there is room again
    with pytest.raises(ValueError, match='budget is -1'):
        asyncio.run(detector.adetect(IMAGE, -1.0))

    async def leave():
        network.gate.clear()
        waiting = [asyncio.create_task(detector.adetect(IMAGE, 300.0)) for _ in range(MOST_AWAITED)]
        await asyncio.sleep(0.1)
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        network.gate.set()

    asyncio.run(leave())
    wait(lambda: detector._places._value == MOST_AWAITED)
    assert asyncio.run(detector.adetect(IMAGE, AMPLE_MS)).in_time
    detector.close()
    with pytest.raises(StreamClosed, match='closed'):
        asyncio.run(detector.adetect(IMAGE, AMPLE_MS))


def test_the_short_import_works_beside_the_messages(tmp_path):
    program = (
        'from deadline_perception import DeadlineDetector, __version__\n'
        'from deadline_perception.msg import FrameLatency\n'
        'import deadline_perception.deadline_detector as home\n'
        'assert DeadlineDetector is home.DeadlineDetector\n'
        'print(__version__)'
    )
    done = run_python('-c', program, cwd=tmp_path)
    assert re.fullmatch(r'\d+\.\d+\.\d+\n', done.stdout), done.stderr
