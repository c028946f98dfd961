import numpy as np
import pytest

from deadline_perception.extras.several_networks.classifier.crop import crop_box, size_px

IMAGE = np.arange(100 * 200 * 3, dtype=np.uint32).astype(np.uint8).reshape(100, 200, 3)


def test_a_window_is_square_and_beyond_the_image_its_outermost_pixels_go_on():
    crop = crop_box(IMAGE, (50.0, 40.0, 60.0, 60.0))
    np.testing.assert_array_equal(crop, IMAGE[38:62, 43:67])
    assert size_px((50.0, 40.0, 60.0, 60.0)) == 20.0
    crop = crop_box(IMAGE, (-5.0, -5.0, 5.0, 5.0), window=1.0)
    assert crop.shape == (10, 10, 3)
    np.testing.assert_array_equal(crop[:5, :5], np.broadcast_to(IMAGE[0, 0], (5, 5, 3)))
    np.testing.assert_array_equal(crop[5:, 5:], IMAGE[:5, :5])
    with pytest.raises(ValueError, match=r'image is float64 \(4, 4\), expected uint8'):
        crop_box(np.zeros((4, 4)), (0, 0, 2, 2))


@pytest.mark.parametrize(
    'box',
    [
        (10.0, 10.0, 10.0, 20.0),
        (200.0, 0.0, 210.0, 10.0),
        (-9.0, -9.0, 0.0, 5.0),
        (0.0, 0.0, np.nan, 5.0),
        (0.0, 0.0, np.inf, 5.0),
        (-5e18, 0.0, 5e18, 5.0),
        (0.0, 0.0, 1e300, 5.0),
    ],
)
def test_a_box_without_a_pixel_is_refused(box):
    with pytest.raises(ValueError, match=r'box is \(.*\) px, expected left < right.*100 px'):
        crop_box(IMAGE, box)
