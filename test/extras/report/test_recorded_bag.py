"""Recordings are read from real bags, whatever their namespace and storage."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from recorded_run import PATH, SECOND_NS, START_NS, RunWriter, damaged
from rosbags.rosbag2 import StoragePlugin

from deadline_perception.extras.report.recorded_bag import RecordingError, read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.runtime.job import Outcome

BOX = [10.0, 20.0, 50.0, 80.0]


def write_one_frame(run: RunWriter) -> None:
    run.camera(START_NS)
    run.speed(START_NS, 7.0)
    run.budget(START_NS, 100.0, 6.5)
    run.contention(START_NS, 1.3)
    run.boxes('/ground_truth', START_NS, [(BOX, 'vehicle', 1.0), (BOX, 'bike', 0.0)])
    run.boxes('/detector/detections', START_NS, [(BOX, 'traffic_light', 0.75)])
    run.decision(START_NS, changed=True)
    run.latency(START_NS, total_ms=60.0, budget_ms=100.0, network_ms=50.0)


@pytest.mark.parametrize('namespace', ['', '/robot1/front'])
@pytest.mark.parametrize('storage', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_reads_every_record_of_a_frame(tmp_path, namespace, storage):
    with RunWriter(tmp_path / 'run', namespace=namespace, storage=storage) as run:
        write_one_frame(run)
    recording = read_recording(tmp_path / 'run')
    (frame,) = recording.frames
    assert recording.sent_stamps_ns == (START_NS,)
    expected = (Outcome.DETECTED, PATH, 100.0, 60.0)
    assert (frame.outcome, frame.path, frame.budget_ms, frame.total_ms) == expected
    names = recording.class_names
    assert frame.network_phase_ms['conv'] == pytest.approx(35.0) and frame.in_time
    # bound of 60 ms and 10 ms outside the network
    assert frame.total_bound_ms == pytest.approx(70.0)
    assert frame.detections.boxes_xyxy_px.tolist() == [BOX]
    assert [names[label] for label in frame.detections.labels] == ['traffic_light']
    known = recording.ground_truth[START_NS]
    assert [names[label] for label in known.labels] == ['vehicle', 'bike']
    assert known.crowd.tolist() == [False, True]
    (changed,) = [operator for operator in frame.decision.operators if operator.changed]
    assert (changed.name, changed.setting) == ('head', '1')
    assert (frame.decision.policy, frame.decision.slowdown) == ('frontier', 1.0)
    assert recording.speed_mps.at(START_NS) == 6.5  # the speed that the budget was computed from
    assert recording.slowdown.at(START_NS) == 1.3


def test_takes_the_speed_topic_where_no_budget_was_recorded(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.speed(START_NS, 7.0)
        run.latency(START_NS)
    assert read_recording(tmp_path / 'run').speed_mps.values == (7.0,)


def test_counts_a_stamp_once_and_frames_without_a_stamp_one_by_one(recorded):
    recording = recorded(*({'stamp_ns': stamp_ns} for stamp_ns in (START_NS, START_NS, 0, 0)))
    assert sorted(frame.stamp_ns for frame in recording.frames) == [0, 0, START_NS]


def test_what_was_counted_before_the_recording_is_none_of_it(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        for index in range(6):
            run.camera(START_NS + index)
        for index, total in ((2, 500), (3, 501), (5, 502)):
            run.latency(
                START_NS + index, rejected_frames_total=total, middleware_lost_total=total - 500
            )
    recording = read_recording(tmp_path / 'run')
    assert (recording.rejected, recording.middleware_lost) == (4, 2)


def test_of_several_cameras_that_of_the_detector_is_the_one_that_sent(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        for index in range(5):
            run.camera(START_NS + index * SECOND_NS)
            run.camera(START_NS + index * SECOND_NS + 7_000_000, '/depth/camera_info')
            run.latency(START_NS + index * SECOND_NS)
    assert len(read_recording(tmp_path / 'run').sent_stamps_ns) == 5


def test_two_detectors_are_refused_by_name(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
        run.latency(START_NS, topic='/rear/detector/latency')
    with pytest.raises(RecordingError, match=r'2 detectors \(/detector/latency'):
        read_recording(tmp_path / 'run')


def test_keeps_classes_that_are_not_its_own(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
        run.boxes('/detector/detections', START_NS, [(BOX, 'tram', 0.5)])
    recording = read_recording(tmp_path / 'run')
    assert recording.class_names[recording.frames[0].detections.labels[0]] == 'tram'


@pytest.fixture
def scored(tmp_path, no_charts):
    """Recording, summary and page of one frame: classes of the network, of the objects and of what is found."""

    def make(names, known, found=()):
        with RunWriter(tmp_path / 'run') as run:
            run.label_info(START_NS, names)
            run.boxes('/ground_truth', START_NS, [(BOX, name, 1.0) for name in known])
            run.boxes('/detector/detections', START_NS, [(BOX, name, 0.9) for name in found])
            run.latency(START_NS)
        recording = read_recording(tmp_path / 'run')
        summary = write_report(recording, tmp_path / 'report')
        return recording, summary, (tmp_path / 'report/report.html').read_text()

    return make


def test_objects_that_the_network_does_not_know_are_counted_and_not_scored(scored):
    known = ('person', 'vehicle', 'person')
    recording, summary, page = scored(('vehicle', 'tram'), known, ['vehicle'])
    assert recording.class_names == ('vehicle', 'tram')
    assert recording.unknown_objects == {'person': 2}
    assert recording.ground_truth[START_NS].labels.tolist() == [0]
    assert summary['ap'] == pytest.approx(1.0) and 'person' not in summary['ap_per_class']
    assert 'the network does not know their class: 2 of person' in page


def test_objects_under_the_names_of_a_data_set_are_scored_by_its_map(scored):
    known = ('car', 'traffic light')
    recording, summary, page = scored(('vehicle', 'person'), known, ['vehicle'])
    assert recording.ground_truth[START_NS].labels.tolist() == [0]
    assert recording.unknown_objects == {'traffic light': 1}
    assert summary['ap'] == pytest.approx(1.0)
    assert 'car as vehicle' in page and 'by the map' in page


def test_objects_of_no_class_of_the_network_are_ground_truth_all_the_same(scored):
    _, summary, page = scored(('vehicle',), ('horse', 'horse'))
    assert summary['ap50'] is None and 'no ground truth' not in page
    assert '2 known boxes, none of a class that the network has (2 of horse): --classes' in page


def test_refuses_what_is_no_bag_or_holds_no_run(tmp_path):
    with RunWriter(tmp_path / 'camera_only') as run:
        run.camera(START_NS)
    (tmp_path / 'no_bag').write_bytes(b'not a bag at all')
    for name, error, words in (
        ('camera_only', RecordingError, 'holds no deadline_perception/msg/FrameLatency'),
        ('no_bag', RecordingError, 'is no bag'),
        ('absent', FileNotFoundError, 'not exist'),
    ):
        with pytest.raises(error, match=words):
            read_recording(tmp_path / name)


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp('runs')
    for storage in (StoragePlugin.MCAP, StoragePlugin.SQLITE3):
        with RunWriter(folder / storage.name, storage=storage) as run:
            write_one_frame(run)
    return sorted(file for ending in ('mcap', 'db3') for file in folder.glob(f'*/*.{ending}'))


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(seed=st.integers(0, 2**32 - 1), number=st.integers(0, 1))
@example(seed=8, number=0)  # the definition of PathDecision loses a field
def test_flipped_and_missing_bytes_give_a_recording_or_a_named_error(tmp_path, runs, seed, number):
    file = tmp_path / f'fuzzed{runs[number].suffix}'
    file.write_bytes(damaged(runs[number].read_bytes(), seed))
    try:
        assert read_recording(file).frames
    except RecordingError as error:
        assert '\n' not in str(error)
