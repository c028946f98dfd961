import numpy as np
import pytest

from deadline_perception.core.decoding import decode
from deadline_perception.core.detections import Detections
from deadline_perception.networks.look_fusion import (
    FEATURES,
    FusionRecord,
    LookFusion,
    box_features,
    overlaps_of_class,
)
from deadline_perception.networks.passes import merged

NAMES = ('vehicle', 'person')
SIZE = (100, 200)
NONE = Detections(np.zeros((0, 4)), [], [])


def fusion(**coefficients: float) -> LookFusion:
    """Keeps every score, but for some coefficients of the first class: `coarse2=-1` of the third feature."""
    record = {look: {'vehicle': [1.0, *[0.0] * (FEATURES - 1)]} for look in ('coarse', 'fine')}
    for name, value in coefficients.items():
        look = name.rstrip('0123456789')
        record[look]['vehicle'][int(name.removeprefix(look))] = value
    return LookFusion.from_record(FusionRecord(**record), NAMES)


@pytest.mark.parametrize(
    ('side', 'share'), [(1.0, 0.0), (14.1, 0.5), (100.0, 1.0)], ids=['small', 'middle', 'large']
)
def test_the_box_of_a_pair_goes_over_to_the_first_look_with_the_size_of_the_object(side, share):
    coarse = Detections([[0, 0, side, side]], [0.6], [0])
    fine = Detections([[0, 0, side, side * 0.9]], [0.8], [0])
    found = merged(coarse, fine, SIZE, fusion())
    assert len(found) == 1 and found.scores == pytest.approx([0.8], abs=1e-6)
    assert found.boxes_xyxy_px[0, :3].tolist() == pytest.approx([0.0, 0.0, side], rel=1e-6)
    between = (found.boxes_xyxy_px[0, 3] / side - 0.9) / 0.1
    assert between == pytest.approx(share, abs=0.05)


def test_what_the_other_look_saw_raises_a_score_as_its_coefficient_says():
    coarse = Detections([[0, 0, 80, 80]], [0.6], [0])
    fine = Detections([[0, 0, 80, 80]], [0.8], [0])
    seen = fusion(coarse7=2.0).fused(coarse, fine, SIZE).scores
    assert seen == pytest.approx([1.0 / (1.0 + np.exp(-(np.log(0.6 / 0.4) + 2.0)))], abs=1e-6)
    alone = fusion(coarse7=2.0).fused(coarse, NONE, SIZE).scores
    assert alone == pytest.approx([0.6], abs=1e-6)
    assert len(merged(NONE, NONE, SIZE, fusion())) == 0
    for looks in ((NONE, fine), (fine, NONE)):
        assert merged(*looks, SIZE, fusion()).scores == pytest.approx([0.8], abs=1e-6)


def test_features_are_those_of_the_box_then_of_what_the_image_shows():
    coarse = Detections([[0, 0, 20, 10]], [0.5], [0])  # a tenth of the image's side: size 0
    fine = Detections([[0, 0, 200, 100]], [0.8], [0])
    (of_coarse,), (of_fine,) = box_features(coarse, fine, SIZE, overlaps_of_class(coarse, fine))
    objects = 0.5 + 0.8 + 0.3
    mean_size, crowd = 0.8 * np.log(10.0) / objects, np.log1p(objects) - 1.5
    expected = [0, 0, 0, 1, 0, 0, 0, 0, mean_size, 0, 0, 0, 0, crowd, 0]
    assert of_coarse == pytest.approx(expected, abs=1e-6)
    assert of_fine[[0, 3, 4, 5]] == pytest.approx([np.log(4.0), 1, np.log(10.0), np.log(10.0) ** 2])
    assert len(of_fine) == FEATURES


@pytest.mark.parametrize(
    ('record', 'said'),
    [
        ({'coarsest': {}}, "fusion has 'coarsest', expected coarse, fine"),
        ({'coarse': {'tram': [0.0] * FEATURES}, 'fine': {}}, 'classes tram, expected some of veh'),
        (
            {'fine': {'person': [0.0]}},
            r"fusion.fine\['person'\] is .*, expected array of length >= 15",
        ),
        ({'coarse': {'person': [np.nan] * FEATURES}}, r"coarse\['person'\]\[0\] is nan, expected"),
    ],
)
def test_coefficients_that_do_not_fit_are_refused(record, said):
    with pytest.raises(ValueError, match=said):
        LookFusion.from_record(decode(record, FusionRecord, 'fusion'), NAMES)
