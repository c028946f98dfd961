from deadline_perception.extras.data.records import Frame
from deadline_perception.extras.training.label_log import SeenImage
from deadline_perception.extras.training.labelling import LabelJob
from deadline_perception.tools.label_report import label_progress


def job(number):
    return LabelJob(Frame(f'{number}.png', number, lambda: None), frozenset(), f'{number}.png')


def test_progress_names_the_first_unreadable_images_and_counts_all(capsys):
    with label_progress(30, 4) as tell:
        for number in range(5, 31):
            tell(number, job(number), SeenImage((0, 0), (), 'cannot be decoded'))
    said = capsys.readouterr().err
    assert said.count('cannot be decoded') == 10
    assert '30/30 images, 26 left out' in said
