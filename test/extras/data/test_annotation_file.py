import pytest

from deadline_perception.extras.data.ground_truth import GroundTruthCollector


def test_counts_over_images_and_warns_once():
    collector = GroundTruthCollector('set')
    first = collector.collect([(-1, 0, 5, 5), (3, 3, 3, 9)], [0, 1], [False, True], 10, 10)
    second = collector.collect(
        [(8, 8, 30, 9), (20, 2, 30, 5), (5, 5, 2, 8)], [2] * 3, [True] * 3, 10, 10
    )
    for category in ('tram', 'tram', 'cow'):
        collector.leave_out(category)
    assert first.boxes_xyxy_px.tolist() == [[0, 0, 5, 5]] and first.labels.tolist() == [0]
    assert second.boxes_xyxy_px.tolist() == [[8, 8, 10, 9]] and second.crowd.tolist() == [True]
    with pytest.warns(UserWarning, match='set: 2 boxes clipped to the image, 1 boxes.*unknown'):
        collector.report()
    with pytest.raises(ValueError, match=r'box \[0.0, nan, 1.0, 1.0\]'):
        GroundTruthCollector('set').collect([(0, float('nan'), 1, 1)], [0], [False], 10, 10)
    with pytest.raises(ValueError, match='set: an image is 0 x 10 px'):
        GroundTruthCollector('set').collect([], [], [], 0, 10)
