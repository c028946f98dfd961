import numpy as np
import pytest
from made_up_labels import known
from numpy.lib.stride_tricks import sliding_window_view
from plain_images import grey, noise

from deadline_perception.core.detections import pairwise_iou
from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.rendered_drive.drive import CLASS_NAMES, render_drive
from deadline_perception.extras.rendered_drive.object_views import annotated_views, lit_lamp
from deadline_perception.extras.rendered_drive.single_object import render_object
from deadline_perception.extras.several_networks.classifier.classes import (
    BACKGROUND,
    LAMPS,
    REFINED,
)

GREY = grey(40, 40, 120)


def frame(image, *rows):
    return Frame('one', 0, lambda: image, None, known(*rows))


def test_objects_are_cut_out_with_their_surroundings_and_crowds_small_and_unknown_ones_left_out():
    image = noise(100, 160)
    rows = (
        (40, 40, 60, 50, 0, 0),
        (0, 0, 20, 20, 0, 1),
        (80, 80, 84, 84, 0, 0),
        (100, 10, 130, 30, 1, 0),
        (50, 60, 70, 90, 2, 0),
    )
    names = ('vehicle', 'tram', 'traffic_sign')
    views = list(annotated_views([frame(image, *rows)], names, backgrounds=0))
    assert [view.classes for view in views] == [('vehicle',), REFINED['traffic_sign']]
    left, top, right, bottom = (round(value) for value in views[0].box_xyxy_px)
    np.testing.assert_array_equal(views[0].image_bgr[top:bottom, left:right], image[40:50, 40:60])
    assert views[0].size_px == 20.0 and views[0].image_bgr.shape[1] > 40


def test_background_overlaps_no_object_by_much_and_is_drawn_by_the_seed():
    drive = render_drive(seconds=2.0, rate_hz=1.0, seed=3, width=160, height=96)
    frames = [one for one in drive.frames if len(one.ground_truth)]
    for one in frames:
        views = annotated_views([one], CLASS_NAMES, backgrounds=20)
        views = [view for view in views if view.classes == (BACKGROUND,)]
        assert len(views) > 10
        image = one.load_bgr()
        for view in views:
            windows = sliding_window_view(image, view.image_bgr.shape)[:, :, 0]
            y, x = np.argwhere((windows == view.image_bgr).all((2, 3, 4)))[0]
            box = np.array(view.box_xyxy_px) + [x, y, x, y]
            assert pairwise_iou([box], one.ground_truth.boxes_xyxy_px).max() < 0.35
    small = frame(GREY, (5, 5, 15, 15, 0, 0))  # smaller than the largest windows
    assert len(list(annotated_views([small], CLASS_NAMES, backgrounds=40))) > 1
    empty = frame(GREY)
    first, again, other = (
        next(annotated_views([empty], CLASS_NAMES, backgrounds=1, seed=seed)).box_xyxy_px
        for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize('name', LAMPS)
@pytest.mark.parametrize('size', [16, 48])
def test_the_lamp_of_a_rendered_light_is_told_by_its_pixels(name, size):
    told = []
    for seed in range(12):
        view = render_object(np.random.default_rng(seed), name, size, GREY)
        left, top, right, bottom = (round(value) for value in view.box_xyxy_px)
        told.append(lit_lamp(view.image_bgr[top:bottom, left:right]))
    assert set(told) <= {name, None, 'yellow_light'}  # some housings are yellow
    assert told.count(name) >= 9
