import cv2
import pytest
from annotated_images import turn
from plain_images import grey
from read_sequences import boxes_of, classes_of, crowd_of, frame_names, opened

from deadline_perception.extras.data.pascal_voc import read_voc

OBJECT = (
    '<object><name>{}</name><difficult>{}</difficult><bndbox><xmin>{}</xmin><ymin>{}</ymin>'
    '<xmax>{}</xmax><ymax>{}</ymax></bndbox></object>'
)


def annotation(*objects) -> str:
    return f'<annotation>{"".join(OBJECT.format(*one) for one in objects)}</annotation>'


@pytest.fixture
def root(tmp_path):
    """Two images; the first has a car and a difficult person."""
    for folder in ('Annotations', 'JPEGImages', 'ImageSets/Main'):
        (tmp_path / folder).mkdir(parents=True)
    for name in ('a', 'b'):
        cv2.imwrite(str(tmp_path / f'JPEGImages/{name}.jpg'), grey(50, 100))
        (tmp_path / f'Annotations/{name}.xml').write_text(annotation())
    (tmp_path / 'Annotations/a.xml').write_text(
        annotation(('person', 1, 1, 1, 100, 50), ('car', 0, 11, 6, 30, 20))
    )
    (tmp_path / 'ImageSets/Main/val.txt').write_text('a\n')
    (tmp_path / 'ImageSets/Main/train.txt').write_text('b\n')
    return tmp_path


def test_pixels_count_from_0_and_difficult_objects_are_crowd_regions(root):
    sequence = opened(root)
    assert sequence.class_names == ('car', 'person') and len(sequence.frames) == 1
    assert boxes_of(sequence) == [[0, 0, 100, 50], [10, 5, 30, 20]]
    assert classes_of(sequence) == ['person', 'car'] and crowd_of(sequence) == [True, False]
    assert frame_names(opened(root, split='train')) == ['b']
    assert len(read_voc(root).frames) == 2


@pytest.mark.parametrize(
    'sides, shape',
    [
        ('', (50, 100, 3)),
        ((0, 0), (50, 100, 3)),  # not known
        ((100, 50), (50, 100, 3)),
        ((50, 100), (100, 50, 3)),
        ((1000, 500), None),
    ],
)
def test_an_image_is_upright_where_its_boxes_were_drawn_on_it_so(root, sides, shape):
    turn(root / 'JPEGImages/a.jpg')
    size = sides and '<size><width>{}</width><height>{}</height></size>'.format(*sides)
    text = annotation(('car', 0, 11, 6, 30, 90)).replace('<annotation>', f'<annotation>{size}')
    (root / 'Annotations/a.xml').write_text(text)
    if shape is None:
        with pytest.raises(ValueError, match='a.jpg is 100 x 50 px, expected 1000 x 500 px'):
            read_voc(root)
        return
    sequence = read_voc(root)
    assert sequence.frames[0].load_bgr().shape == shape
    assert boxes_of(sequence) == [[10, 5, 30, min(90, shape[0])]]


@pytest.mark.parametrize(
    'content, message',
    [
        ('<annotation>', 'it is no XML'),
        ('<note/>', "its root is 'note', expected annotation"),
        ('<!DOCTYPE a [<!ENTITY x "y">]><annotation/>', 'declares types or entities'),
        (
            '<annotation><object><name>car</name></object></annotation>',
            'lacks its name or a bndbox',
        ),
        (annotation(('car', 0, 'x', 1, 2, 3)), 'could not convert'),
    ],
)
def test_refuses_files_of_another_form(root, content, message):
    (root / 'Annotations/a.xml').write_text(content)
    with pytest.raises(ValueError, match=message):
        read_voc(root)


def test_a_list_may_name_images_with_spaces_but_none_that_is_missing(root):
    (root / 'JPEGImages/b.jpg').rename(root / 'JPEGImages/b 1.jpg')
    (root / 'ImageSets/Main/val.txt').write_text('a  1\nb 1\n')
    assert frame_names(read_voc(root, 'val')) == ['a', 'b 1']
    (root / 'ImageSets/Main/val.txt').write_text('a\nc\nd\n')
    with pytest.raises(ValueError, match='2 of 3 images are missing, the first is c'):
        read_voc(root, 'val')


def test_a_split_that_is_not_there_is_not_all_of_the_others(root, tmp_path):
    folder = tmp_path / 'export'
    for split in ('train', 'valid'):
        (folder / split).mkdir(parents=True)
        cv2.imwrite(str(folder / split / 'a.jpg'), grey(50, 100))
        (folder / split / 'a.xml').write_text(annotation())
    assert opened(folder).name == 'valid'
    with pytest.raises(FileNotFoundError, match='has no folder of test, only val, train'):
        opened(folder, split='test')
