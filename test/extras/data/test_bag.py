import math
from dataclasses import replace
from functools import partial

import cv2
import numpy as np
import pytest
from recorded_run import RunWriter
from rosbags.rosbag2 import StoragePlugin

from deadline_perception.core.records import Frame, GroundTruth, Sequence
from deadline_perception.extras.data.bag import FIRST_STAMP_NS, BagError, read_bag, write_bag
from deadline_perception.extras.rendered_drive.drive import render_drive


@pytest.fixture(scope='module')
def drive():
    return render_drive(seconds=1.0, rate_hz=5.0, seed=2, width=320, height=192)


def assert_same_facts(read, written, shift_ns):
    assert len(read.frames) == len(written.frames)
    assert set(read.class_names) <= set(written.class_names)
    assert read.camera_matrix == pytest.approx(written.camera_matrix)
    for after, before in zip(read.frames, written.frames):
        assert after.stamp_ns == before.stamp_ns + shift_ns
        assert after.speed_mps == pytest.approx(before.speed_mps)
        assert after.ground_truth.boxes_xyxy_px == pytest.approx(
            before.ground_truth.boxes_xyxy_px, abs=1e-3
        )
        assert [read.class_names[label] for label in after.ground_truth.labels] == [
            written.class_names[label] for label in before.ground_truth.labels
        ]
        assert after.ground_truth.crowd.tolist() == before.ground_truth.crowd.tolist()


@pytest.mark.parametrize(
    ('name', 'compressed'), [('drive.mcap', False), ('drive', False), ('drive.mcap', True)]
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


def test_what_is_not_known_stays_unknown(drive, tmp_path):
    frames = tuple(
        replace(frame, speed_mps=None, ground_truth=None, stamp_ns=frame.stamp_ns + 17 * 10**17)
        for frame in drive.frames[:2]
    )
    write_bag(Sequence('bare', (), frames), tmp_path / 'bare.mcap')
    read = read_bag(tmp_path / 'bare.mcap')
    assert read.class_names == () and read.camera_matrix is None
    assert [frame.stamp_ns for frame in read.frames] == [frame.stamp_ns for frame in frames]
    assert all(frame.speed_mps is None and frame.ground_truth is None for frame in read.frames)


def test_frames_without_objects_differ_from_frames_without_annotation(drive, tmp_path):
    nothing = GroundTruth(np.zeros((0, 4)), np.zeros(0), np.zeros(0))
    frames = (
        replace(drive.frames[0], ground_truth=nothing),
        replace(drive.frames[1], ground_truth=None),
        drive.frames[2],
    )
    write_bag(replace(drive, frames=frames), tmp_path / 'a.mcap')
    first, second, third = read_bag(tmp_path / 'a.mcap').frames
    assert len(first.ground_truth) == 0 and second.ground_truth is None
    assert len(third.ground_truth) == len(drive.frames[2].ground_truth)


def write_images(
    folder, stamps_ns, plugin=StoragePlugin.SQLITE3, encoding='bgr8', speeds=(), objects=()
):
    """A bag as another program may have recorded it; messages are logged 0.1 s apart."""
    with RunWriter(folder, storage=plugin) as run:
        for logged_ns, speed, *header_ns in speeds:  # a header stamp of its own comes third
            run.write('/twist', run.messages.speed(*header_ns or [logged_ns], speed), logged_ns)
        for logged_ns, boxes in objects:
            known = [[1.0, 1, 3, 3]] * boxes if isinstance(boxes, int) else boxes
            run.boxes('/ground_truth', 0, [(box, 'vehicle', 1.0) for box in known], logged_ns)
        for index, stamp_ns in enumerate(stamps_ns):
            message = run.messages.image(stamp_ns, np.full((4, 6, 3), 10 * index, np.uint8))
            message.encoding = encoding
            run.write('/front/image', message, 7_000_000_000 + index * 100_000_000)
    return folder


@pytest.mark.parametrize('plugin', StoragePlugin)
def test_reads_bags_of_either_storage_and_interpolates_speed(tmp_path, plugin):
    bag = write_images(
        tmp_path / 'bag',
        [2_000_000_000, 2_500_000_000],
        plugin,
        speeds=((1_900_000_000, 3.0), (2_100_000_000, 5.0), (2_600_000_000, -5.0)),
    )
    read = read_bag(bag)
    assert [frame.stamp_ns for frame in read.frames] == [2_000_000_000, 2_500_000_000]
    assert [frame.speed_mps for frame in read.frames] == pytest.approx([4.0, 5.0])
    assert (read.frames[1].load_bgr() == 10).all()
    inner = next(file for file in bag.iterdir() if file.suffix in ('.db3', '.mcap'))
    assert [frame.stamp_ns for frame in read_bag(inner).frames] == [2_000_000_000, 2_500_000_000]


@pytest.mark.parametrize(
    ('image_stamps', 'speed_stamp'),
    [
        ([0, 0, 0], 0),  # no headers at all
        ([0, 0, 0], 900_000_000_000),  # only the speeds have one
        ([2_000_000_000, 2_100_000_000, 2_200_000_000], 0),  # only the images have one
        ([3_000_000_000, 2_000_000_000, 4_000_000_000], 3 * 10**9),
    ],
)  # images run backwards
def test_times_of_recording_count_where_headers_have_none(tmp_path, image_stamps, speed_stamp):
    read = read_bag(
        write_images(
            tmp_path / 'bag',
            image_stamps,
            speeds=[
                (7_000_000_000, 2.0, speed_stamp),
                (7_100_000_000, 4.0, speed_stamp),
                (7_300_000_000, 8.0, speed_stamp),
            ],
        )
    )
    logged = [7_000_000_000, 7_100_000_000, 7_200_000_000]
    assert [frame.stamp_ns for frame in read.frames] == (
        image_stamps if image_stamps[0] == 2_000_000_000 else logged
    )
    assert [int(frame.load_bgr()[0, 0, 0]) for frame in read.frames] == [0, 10, 20]
    assert [frame.speed_mps for frame in read.frames] == pytest.approx([2.0, 4.0, 6.0])


def write_rows(folder, rows, speeds=()):
    """Images of these stamps and times of recording in ms; each is ten lighter than the one before."""
    with RunWriter(folder) as run:
        for index, (stamp_ms, logged_ms) in enumerate(rows):
            image = run.messages.image(stamp_ms * 10**6, np.full((4, 6, 3), 10 * index, np.uint8))
            run.write('/front/image', image, logged_ms * 10**6)
        for stamp_ms, logged_ms, speed in speeds:
            run.write('/twist', run.messages.speed(stamp_ms * 10**6, speed), logged_ms * 10**6)
    return folder


LOGGED = [5000, 5000, 5100, 5100, 5200, 5200]


@pytest.mark.parametrize(
    ('stamps_ms', 'logged_ms', 'shades', 'stamped'),
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
    read = read_bag(write_rows(tmp_path / 'bag', zip(stamps_ms, logged_ms)))
    assert [int(frame.load_bgr()[0, 0, 0]) for frame in read.frames] == shades
    times_ms = [frame.stamp_ns / 1e6 for frame in read.frames]
    assert times_ms == [(stamps_ms if stamped else logged_ms)[shade // 10] for shade in shades]


def test_speeds_that_are_nanoseconds_apart_are_one(tmp_path):
    now_ns = 1_700_000_000 * 10**9
    read = read_bag(
        write_images(
            tmp_path / 'bag',
            [now_ns, now_ns + 10**8],
            speeds=[(now_ns + 100 * number, 3.0 + number) for number in range(2)],
        )
    )
    assert [frame.speed_mps for frame in read.frames] == [3.0, 3.0]


def test_ground_truth_without_stamps_belongs_to_what_was_recorded_with_it(tmp_path):
    read = read_bag(
        write_images(tmp_path / 'bag', [0, 0, 0], objects=[(7_000_000_000, 2), (7_200_000_000, 1)])
    )
    assert [
        None if frame.ground_truth is None else len(frame.ground_truth) for frame in read.frames
    ] == [2, None, 1]


@pytest.mark.parametrize('compressed', [False, True])
def test_known_objects_are_cut_to_their_own_image_where_images_differ_in_size(tmp_path, compressed):
    known = GroundTruth([[30, 20, 300, 200]], [0], [False])
    frames = [
        Frame(str(side), side, partial(np.zeros, (side, side, 3), np.uint8), ground_truth=known)
        for side in (64, 400)
    ]
    write_bag(
        Sequence('sizes', ('car',), tuple(frames)), tmp_path / 'a.mcap', compressed=compressed
    )
    with pytest.warns(UserWarning, match='1 boxes clipped to the image$'):
        read = read_bag(tmp_path / 'a.mcap')
    expected = [[[30, 20, 64, 64]], [[30, 20, 300, 200]]]
    assert [frame.ground_truth.boxes_xyxy_px.tolist() for frame in read.frames] == expected


def test_of_several_cameras_one_that_can_be_used_is_read_with_its_own_intrinsics(tmp_path):
    with RunWriter(tmp_path / 'bag') as run:
        depth = run.messages.image(5, np.zeros((4, 6, 3), np.uint8))
        depth.encoding = '16UC1'
        run.write('/aligned_depth/image_raw', depth, 5)
        run.write('/colour/image_raw', run.messages.image(5, np.zeros((4, 6, 3), np.uint8)), 5)
        for name, focal_px in (('aligned_depth', 100.0), ('colour', 200.0)):
            run.write(
                f'/{name}/camera_info',
                run.messages.camera_info(5, 6, 4, np.diag([focal_px, focal_px, 1.0])),
                5,
            )
    read = read_bag(tmp_path / 'bag')
    assert read.frames[0].load_bgr().shape == (4, 6, 3) and read.camera_matrix[0, 0] == 200.0


@pytest.mark.parametrize(
    ('stamps_ns', 'beside', 'words'),
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
    read = read_bag(write_images(tmp_path / 'bag', [1_000_000_000], encoding='32FC1'))
    with pytest.raises(BagError, match="image at 1000000000 ns .*encoding is '32FC1'.*of bgr8"):
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


def test_a_bag_with_a_damaged_middle_is_refused(tmp_path):
    noise = np.random.default_rng(0).integers(0, 256, (300, 300, 3), np.uint8)
    file = tmp_path / 'damaged.mcap'
    write_bag(
        Sequence('noise', (), tuple(Frame(str(i), i * 10**8, lambda: noise) for i in range(20))),
        file,
    )
    whole = file.read_bytes()
    file.write_bytes(whole[:1_200_000] + bytes(400_000) + whole[1_600_000:])
    with pytest.raises(BagError, match='damaged.mcap is damaged: .+'):
        read_bag(file)


def test_objects_of_an_image_that_is_turned_as_its_camera_was_held_keep_their_place(tmp_path):
    """The pixels are turned, so the size that boxes are cut to is."""
    plain = cv2.imencode('.jpg', np.full((24, 60, 3), 90, np.uint8))[1].tobytes()
    note = b'Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0'
    turned = plain[:2] + b'\xff\xe1' + (len(note) + 2).to_bytes(2, 'big') + note + plain[2:]
    with RunWriter(tmp_path / 'bag') as run:
        image = run.messages.compressed_image(100, np.frombuffer(turned, np.uint8))
        run.write('/camera/compressed', image, 100)
        run.boxes('/ground_truth', 100, [([2.0, 40.0, 20.0, 58.0], 'car', 1.0)], 100)
    (frame,) = read_bag(tmp_path / 'bag').frames
    assert frame.load_bgr().shape == (60, 24, 3)
    assert frame.ground_truth.boxes_xyxy_px.tolist() == [[2, 40, 20, 58]]


def test_known_objects_are_those_of_the_camera_that_is_read(tmp_path):
    image = np.zeros((24, 60, 3), np.uint8)
    with RunWriter(tmp_path / 'bag') as run:
        for camera, left in (('front', 1.0), ('rear', 2.0)):
            run.write(f'/{camera}/image', run.messages.image(100, image), 100)
            run.boxes(f'/{camera}/ground_truth', 100, [([left, 4.0, 9.0, 9.0], 'car', 1.0)], 100)
    (frame,) = read_bag(tmp_path / 'bag').frames
    assert frame.ground_truth.boxes_xyxy_px.tolist() == [[1, 4, 9, 9]]
