"""Recordings are read from real bags, whatever their namespace and storage."""

from pathlib import Path

import pytest
from recorded_run import PATH, START_NS, RunWriter
from rosbags.rosbag2 import StoragePlugin

from deadline_perception.extras.report.recorded_bag import RecordingError, read_recording
from deadline_perception.extras.report.report import write_report
from deadline_perception.runtime.job import Outcome
from deadline_perception.tools.report import print_closing_table

BOX = [10.0, 20.0, 50.0, 80.0]


@pytest.mark.parametrize('namespace', ['', '/robot1/front'])
@pytest.mark.parametrize('storage', [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_reads_every_record_of_a_frame(tmp_path, namespace, storage):
    with RunWriter(tmp_path / 'run', namespace=namespace, storage=storage) as run:
        run.camera(START_NS)
        run.speed(START_NS, 7.0)
        run.budget(START_NS, 100.0, 6.5)
        run.contention(START_NS, 1.3)
        run.boxes('/ground_truth', START_NS, [(BOX, 'vehicle', 1.0), (BOX, 'bike', 0.0)])
        run.boxes('/detector/detections', START_NS, [(BOX, 'traffic_light', 0.75)])
        run.decision(START_NS, changed=True)
        run.latency(START_NS, total_ms=60.0, budget_ms=100.0, network_ms=50.0)
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


def test_two_detectors_are_refused_by_name(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        run.latency(START_NS)
        run.latency(START_NS, topic='/rear/detector/latency')
    with pytest.raises(RecordingError, match=r'2 detectors \(/detector/latency'):
        read_recording(tmp_path / 'run')


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


def test_other_names_are_scored_by_a_map_and_other_objects_told(scored, capsys, monkeypatch):
    known = ('car', 'person', 'dog', 'dog', 'dog')
    recording, summary, page = scored(('vehicle', 'person'), known, ['vehicle', 'person'])
    assert recording.ground_truth[START_NS].labels.tolist() == [0, 1]
    assert recording.unknown_objects == summary['unscored_objects'] == {'dog': 3}
    assert summary['ap'] == pytest.approx(1.0)
    assert 'car as vehicle' in page and 'by the map' in page
    assert 'Without 3 known boxes of classes that the network has not.' in page
    assert '3 of dog; <code>--classes NAME|FILE</code> brings names together' in page
    monkeypatch.setenv('COLUMNS', '200')
    print_closing_table(summary, Path('report.html'))
    assert 'of classes that the network has not (3 of dog)' in capsys.readouterr().out


def test_objects_of_no_class_of_the_network_are_ground_truth_all_the_same(scored):
    _, summary, page = scored(('vehicle',), ('horse', 'horse'))
    assert summary['ap50'] is None and 'no ground truth' not in page
    assert '2 known boxes, none of a class that the network has (2 of horse): --classes' in page
