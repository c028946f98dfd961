import math
from dataclasses import replace

import cv2
import numpy as np
import pytest
from annotated_images import turn
from plain_images import grey
from read_sequences import boxes_of, classes_of, crowd_of, object_counts, speeds_mps, stamps_ns
from recorded_run import RunWriter
from rosbags.rosbag2 import StoragePlugin

from deadline_perception.extras.data.bag import FIRST_STAMP_NS, BagError, read_bag, write_bag
from deadline_perception.extras.data.records import GroundTruth
from deadline_perception.extras.rendered_drive.drive import render_drive


@pytest.fixture(scope='module')
def drive():
    return render_drive(seconds=1.0, rate_hz=5.0, seed=2, width=320, height=192)


def assert_same_facts(read, written, shift_ns):
    assert set(read.class_names) <= set(written.class_names)
    assert read.camera_matrix == pytest.approx(written.camera_matrix)
    assert stamps_ns(read) == [stamp_ns + shift_ns for stamp_ns in stamps_ns(written)]
    assert speeds_mps(read) == pytest.approx(speeds_mps(written))
    for at in range(len(written.frames)):
        np.testing.assert_allclose(boxes_of(read, at), boxes_of(written, at), rtol=0, atol=1e-3)
        assert classes_of(read, at) == classes_of(written, at)
        assert crowd_of(read, at) == crowd_of(written, at)


@pytest.mark.parametrize(
    'name, compressed', [('drive.mcap', False), ('drive', False), ('drive.mcap', True)]
)
def test_frames_come_back_exactly_or_compressed_nearly(drive, tmp_path, name, compressed):
    seen = []
    count = write_bag(drive, tmp_path / name, compressed=compressed, progress=seen.append)
    assert count == 4 * 5 and seen == [1, 2, 3, 4, 5]
    assert (tmp_path / name).is_dir() == (name == 'drive')
    assert [file.name for file in tmp_path.iterdir()] == [name]
    read = read_bag(tmp_path / name)
    assert_same_facts(read, drive, FIRST_STAMP_NS)
    for index in (4, 0, 2, 1, 3):
        difference = np.abs(
            read.frames[index].load_bgr().astype(float) - drive.frames[index].load_bgr()
        )
        assert difference.mean() < 4.0 if compressed else not difference.any()


def test_frames_without_objects_differ_from_frames_without_annotation(drive, tmp_path):
    nothing = GroundTruth(np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    known = (nothing, None, drive.frames[2].ground_truth)
    frames = tuple(replace(one, ground_truth=mine) for one, mine in zip(drive.frames, known))
    write_bag(replace(drive, frames=frames), tmp_path / 'a.mcap')
    assert object_counts(read_bag(tmp_path / 'a.mcap')) == [0, None, len(known[2])]


def write_images(
    folder, stamps_ns, plugin=StoragePlugin.SQLITE3, *, speeds=(), objects=(), logged_ns=None
):
    """A bag as another program may have recorded it; messages are logged 0.1 s apart, and each image is ten lighter."""
    with RunWriter(folder, storage=plugin) as run:
        for time_ns, speed, *header_ns in speeds:  # a header stamp of its own comes third
            run.write('/twist', run.messages.speed(*header_ns or [time_ns], speed), time_ns)
        for time_ns, boxes in objects:
            run.boxes('/ground_truth', 0, [(box, 'vehicle', 1.0) for box in boxes], time_ns)
        for index, stamp_ns in enumerate(stamps_ns):
            time_ns = logged_ns[index] if logged_ns else 7_000_000_000 + index * 100_000_000
            run.write('/front/image', run.messages.image(stamp_ns, grey(4, 6, 10 * index)), time_ns)
    return folder


def shades_of(sequence):
    return [int(frame.load_bgr()[0, 0, 0]) for frame in sequence.frames]


@pytest.mark.parametrize(
    'image_stamps, speed_stamp',
    [
        ([0, 0, 0], 0),  # no headers at all
        ([0, 0, 0], 900_000_000_000),  # only the speeds have one
        ([2_000_000_000, 2_100_000_000, 2_200_000_000], 0),  # only the images have one
        ([3_000_000_000, 2_000_000_000, 4_000_000_000], 3 * 10**9),  # images run backwards
    ],
)
def test_times_of_recording_count_where_headers_have_none(tmp_path, image_stamps, speed_stamp):
    logged = [7_000_000_000, 7_100_000_000, 7_200_000_000]
    speeds = zip((logged[0], logged[1], 7_300_000_000), (2.0, 4.0, 8.0), [speed_stamp] * 3)
    read = read_bag(write_images(tmp_path / 'bag', image_stamps, speeds=speeds))
    assert stamps_ns(read) == (image_stamps if image_stamps[0] == 2_000_000_000 else logged)
    assert shades_of(read) == [0, 10, 20]
    assert speeds_mps(read) == pytest.approx([2.0, 4.0, 6.0])


LOGGED = [5000, 5000, 5100, 5100, 5200, 5200]


@pytest.mark.parametrize(
    'stamps_ms, logged_ms, shades, stamped',
    [
        ([1000, 1050, 1100, 1150, 1200, 1250], LOGGED, [0, 10, 20, 30, 40, 50], True),
        ([1000, 1050, 1100, 1100, 1200, 1250], LOGGED, [0, 10, 20, 40, 50], True),
        ([0] * 6, LOGGED, [0, 20, 40], False),
        # the recorder's clock was set back
        ([10, 20, 30, 40, 50, 60], [100, 200, 300, 150, 250, 350], [0, 10, 20, 30, 40, 50], True),
        # the camera's was
        ([100, 200, 300, 150, 250, 350], [10, 20, 30, 40, 50, 60], [0, 10, 20, 30, 40, 50], False),
        # a recording that was played twice
        ([10, 20, 30, 10, 20, 30], [1, 2, 3, 4, 5, 6], [0, 10, 20, 30, 40, 50], False),
    ],
)
def test_images_are_told_by_the_clock_that_goes_on(tmp_path, stamps_ms, logged_ms, shades, stamped):
    times_ns = [[time_ms * 10**6 for time_ms in times] for times in (stamps_ms, logged_ms)]
    bag = write_images(tmp_path / 'bag', times_ns[0], StoragePlugin.MCAP, logged_ns=times_ns[1])
    read = read_bag(bag)
    assert shades_of(read) == shades
    assert stamps_ns(read) == [times_ns[0 if stamped else 1][shade // 10] for shade in shades]


def write_camera(run, name, focal_px, encoding='bgr8'):
    """An image, its intrinsics and a known object, all told apart by the focal length."""
    image = run.messages.image(5, grey(4, 6))
    image.encoding = encoding
    matrix = np.diag([focal_px, focal_px, 1.0])
    run.write(f'/{name}/image_raw', image, 5)
    run.write(f'/{name}/camera_info', run.messages.camera_info(5, 6, 4, matrix), 5)
    run.boxes(f'/{name}/ground_truth', 5, [([focal_px / 100, 1.0, 5.0, 3.0], 'car', 1.0)], 5)


def test_of_several_cameras_one_that_can_be_used_is_read_with_its_intrinsics_and_objects(tmp_path):
    with RunWriter(tmp_path / 'bag') as run:
        write_camera(run, 'depth', 100.0, '16UC1')
        write_camera(run, 'rgb', 200.0)
        write_camera(run, 'rear', 300.0)
    read = read_bag(tmp_path / 'bag')
    assert read.frames[0].load_bgr().shape == (4, 6, 3)
    focal_px = read.camera_matrix[0, 0]
    assert focal_px in (200.0, 300.0) and boxes_of(read) == [[focal_px / 100, 1, 5, 3]]


@pytest.mark.parametrize(
    'stamps_ns, beside, words',
    [
        ([0, 0], {'objects': [(7_000_000_000, [[math.nan, 1, 3, 3]])]}, 'holds NaN or infinity'),
        ([], {'speeds': [(7_000_000_000, 2.0)]}, 'holds no image on any topic, only /twist'),
    ],
)
def test_impossible_objects_and_bags_without_images_are_refused(tmp_path, stamps_ns, beside, words):
    bag = write_images(tmp_path / 'bag', stamps_ns, **beside)
    with pytest.raises(BagError, match=words):
        read_bag(bag)


def test_an_image_that_cannot_be_decoded_says_where(tmp_path):
    with RunWriter(tmp_path / 'bag') as run:
        write_camera(run, 'front', 100.0, '32FC1')
    read = read_bag(tmp_path / 'bag')
    with pytest.raises(BagError, match="image at 5 ns .*encoding is '32FC1'.*of bgr8"):
        read.frames[0].load_bgr()


def test_keeps_what_exists_unless_told_to_replace_a_bag(drive, tmp_path):
    short = replace(drive, frames=drive.frames[:1])
    for name in ('a.mcap', 'b'):
        write_bag(drive, tmp_path / name)
        with pytest.raises(BagError, match='exists already, expected a new name, or --overwrite$'):
            write_bag(short, tmp_path / name)
        write_bag(short, tmp_path / name, overwrite=True)
        assert len(read_bag(tmp_path / name).frames) == 1
    (tmp_path / 'letters').mkdir()
    (tmp_path / 'notes.txt').write_text('dear diary')
    for name in ('letters', 'notes.txt'):
        with pytest.raises(BagError, match='no bag that could be replaced'):
            write_bag(short, tmp_path / name, overwrite=True)


def test_nothing_remains_of_a_bag_that_could_not_be_finished(drive, tmp_path):
    def broken():
        raise ValueError('image cannot be decoded')

    frames = (drive.frames[0], replace(drive.frames[1], load_bgr=broken))
    with pytest.raises(ValueError, match='cannot be decoded'):
        write_bag(replace(drive, frames=frames), tmp_path / 'a.mcap')
    assert list(tmp_path.iterdir()) == []


def test_objects_of_an_image_that_is_turned_as_its_camera_was_held_keep_their_place(tmp_path):
    """The pixels are turned, so the size that boxes are cut to is."""
    cv2.imwrite(str(tmp_path / 'a.jpg'), grey(24, 60, 90))
    turn(tmp_path / 'a.jpg')
    with RunWriter(tmp_path / 'bag') as run:
        content = np.fromfile(tmp_path / 'a.jpg', np.uint8)
        run.write('/camera/compressed', run.messages.compressed_image(100, content), 100)
        run.boxes('/ground_truth', 100, [([2.0, 40.0, 20.0, 58.0], 'car', 1.0)], 100)
    read = read_bag(tmp_path / 'bag')
    assert read.frames[0].load_bgr().shape == (60, 24, 3)
    assert boxes_of(read) == [[2, 40, 20, 58]]
