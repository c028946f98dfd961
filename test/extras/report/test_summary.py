"""What a follower of the detections had at each deadline, and the figures that programs read."""

import pytest
from recorded_run import PATH, START_NS, RunWriter

from deadline_perception.extras.data.bag_messages import BagMessages
from deadline_perception.extras.data.message_definitions import message_types
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.report import report_page
from deadline_perception.extras.report.summary import path_uses, scored_outputs, summarise

OTHER_PATH = 's1-w0.50-p10-h0'


def box(index: int) -> list[float]:
    return [10.0 + index, 10.0, 60.0 + index, 60.0]


def message_of(name, setting):
    """An OperatorDecision of a pass."""
    return BagMessages(message_types()).make(
        'deadline_perception/msg/OperatorDecision',
        name=name,
        kind='pass',
        setting=setting,
        level=1,
        levels=2,
        decided=True,
        changed=False,
        remaining_ms=20.0,
        bound_ms=8.0,
        decision_us=3.0,
    )


def frame(path, network_ms, **decision):
    """Fields of a frame under a bound of 100 ms."""
    times = {'network_ms': network_ms, 'total_ms': network_ms + 5.0, 'bound_ms': 100.0}
    return {'path': path, 'decision': decision, **times}


def test_replaced_and_late_frames_are_scored_with_what_was_delivered_last_before(tmp_path):
    with RunWriter(tmp_path / 'run') as run:
        for index in range(5):
            run.camera(START_NS + index)
            run.boxes('/ground_truth', START_NS + index, [(box(index), 'vehicle', 1.0)])
        # 0 and 2 are replaced
        for index, fields in ((1, {}), (3, {'total_ms': 150.0}), (4, {'outcome': 1})):
            run.boxes('/detector/detections', START_NS + index, [(box(index), 'vehicle', 0.9)])
            run.latency(START_NS + index, **fields)
    outputs, ground_truths = scored_outputs(read_recording(tmp_path / 'run'))
    expected = [[], [11.0], [11.0], [11.0], [14.0]]
    assert [found.boxes_xyxy_px[:, 0].tolist() for found in outputs] == expected
    expected = [10.0, 11.0, 12.0, 13.0, 14.0]
    assert [ground_truth.boxes_xyxy_px[0, 0] for ground_truth in ground_truths] == expected


def test_times_of_a_path_are_those_of_frames_that_ran_all_its_passes(recorded, no_charts):
    passes = [message_of(name, setting) for name, setting in (('coarse', '640'), ('fine', 'run'))]
    frames = [
        frame(PATH, network_ms, operators=passes) | {'results': results}
        for network_ms, results in (
            (10.0, ['coarse']),
            (12.0, ['coarse']),
            (40.0, ['coarse', 'fine']),
        )
    ]
    recording = recorded(
        *frames, frame(OTHER_PATH, 11.0, operators=passes) | {'results': ['coarse']}
    )
    assert [one.missing_passes for one in recording.frames][1:3] == [('fine',), ()]
    whole, cut_short = path_uses(recording)
    assert (whole.frames, whole.cut_short, whole.network_p50_ms) == (3, 2, 40.0)
    assert (cut_short.frames, cut_short.cut_short, cut_short.network_p50_ms) == (1, 1, 11.0)
    page = report_page(recording, summarise(recording, {}), (), {}, (), {})
    assert 'answered before all passes of the path had ended' in page


def test_qualities_that_follow_the_scene_are_not_held_against_each_other(recorded):
    """Those of two paths were of other frames, and a fixed path looked better than the run that chose for each."""
    frames = [
        frame(path, 10.0, quality=0.1 * (1 + number % 3), remaining_ms=90.0)
        for number, path in enumerate([PATH, OTHER_PATH] * 12)
    ]
    summary = summarise(recorded(*frames), {})
    assert summary['beside_fixed_paths'] == [] and summary['smaller_frames'] == 0


def test_frames_that_ran_a_smaller_network_than_fitted_are_counted(recorded):
    """Six frames of either path take 10 and 40 ms under bounds of 100 ms; the small one had 50 ms left, then 20."""
    large = [frame(PATH, 40.0, quality=0.6, remaining_ms=90.0)] * 6
    small = [frame(OTHER_PATH, 10.0, quality=0.4, remaining_ms=left) for left in (50.0, 20.0)] * 3
    summary = summarise(recorded(*large, *small), {})
    assert summary['smaller_frames'] == 3
    assert summary['smaller_quality'] == pytest.approx(3 * 0.2 / 12)
    assert summary['bound_over_network'] == pytest.approx(10.0)
    rows = {row['label']: row for row in summary['beside_fixed_paths']}
    assert rows['this run']['quality'] == pytest.approx(0.5)
    assert rows['longest path always']['path'] == PATH
    assert rows['longest path always']['in_time'] == pytest.approx(9 / 12)
    assert rows['best fixed path']['quality'] == pytest.approx(0.45)
