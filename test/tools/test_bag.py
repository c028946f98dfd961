import numpy as np
import pytest
from annotated_images import write_coco

from deadline_perception.extras.data.bag import read_bag
from deadline_perception.tools.command_line import main


def test_writes_a_drive_says_so_in_one_line_and_replaces_it_when_asked(tmp_path, capsys):
    out = tmp_path / 'drive.mcap'
    arguments = f'bag drive:seconds=3,width=96,height=64 {out} --rate-hz 5 --max-frames 4'.split()
    assert main(arguments) == 0
    printed = capsys.readouterr().out.strip()
    assert printed.count('\n') == 0
    assert f'wrote {out}: 4 frames of drive-seed0 over 0.6 s' in printed
    assert '16 messages' in printed
    assert main(arguments) == 1
    assert 'exists already, expected a new name' in capsys.readouterr().err
    assert main([*arguments, '--overwrite', '--compressed']) == 0
    assert len(read_bag(out).frames) == 4


def test_a_class_mapping_renames_what_is_written(tmp_path):
    (tmp_path / 'classes.json').write_text('{"vehicle": "car", "bike": "car", "motorbike": "car"}')
    with pytest.warns(UserWarning, match='the class mapping names none of car'):
        (tmp_path / 'other.json').write_text('{"tram": null}')
        assert (
            main(
                (
                    f'bag drive:seconds=1,seed=2 {tmp_path / "a.mcap"} --rate-hz 1 --classes '
                    f'{tmp_path / "classes.json"}'
                ).split()
            )
            == 0
        )
        assert (
            main(
                [
                    'bag',
                    str(tmp_path / 'a.mcap'),
                    str(tmp_path / 'b.mcap'),
                    '--classes',
                    str(tmp_path / 'other.json'),
                ]
            )
            == 0
        )
    names = set(read_bag(tmp_path / 'b.mcap').class_names)
    assert 'car' in names and not names & {'vehicle', 'bike', 'motorbike'}


@pytest.mark.parametrize('speed', ['7.5', 'trace.csv'])
def test_gives_a_speed_to_a_source_without_one(tmp_path, coco_like, speed):
    (tmp_path / 'trace.csv').write_text('stamp_s,speed_mps\n0,7.5\n60,7.5\n')
    given = str(tmp_path / speed) if speed.endswith('.csv') else speed
    assert main(['bag', str(coco_like), str(tmp_path / 'a.mcap'), '--speed', given]) == 0
    assert [frame.speed_mps for frame in read_bag(tmp_path / 'a.mcap').frames] == pytest.approx(
        [7.5, 7.5]
    )


@pytest.fixture
def coco_like(tmp_path):
    image = np.full((20, 30, 3), 99, np.uint8)
    write_coco(tmp_path / 'val.json', {'a.png': image, 'b.png': image}, [], ['vehicle'])
    return tmp_path


@pytest.mark.parametrize(
    ('arguments', 'message'),
    [
        (['nowhere', 'out.mcap'], "source 'nowhere' does not exist"),
        (['drive', 'out.mcap', '--max-frames', '0'], '--max-frames is 0'),
        (['drive:seconds=0.2', 'out.mcap', '--speed', 'gone.csv'], 'gone.csv does not exist'),
        (['drive', 'out.mcap', '--rate-hz', '-1'], 'rate is -1.0 Hz'),
    ],
)
def test_expected_errors_are_told(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    assert main(['bag', *arguments]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith('deadline-perception bag: ') and message in error
    assert list(tmp_path.iterdir()) == []
