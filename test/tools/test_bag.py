from pathlib import Path

import pytest
from annotated_images import write_coco
from plain_images import grey
from read_sequences import speeds_mps

from deadline_perception.extras.data.bag import read_bag


def test_writes_a_drive_says_so_in_one_line_and_replaces_it_when_asked(tmp_path, says, refusal):
    out = tmp_path / 'drive.mcap'
    words = f'bag drive:seconds=3,width=96,height=64 {out} --rate-hz 5 --max-frames 4'
    printed = says(words).strip()
    assert printed.count('\n') == 0 and '16 messages' in printed
    assert f'wrote {out}: 4 frames of drive-seed0 over 0.6 s' in printed
    assert 'exists already, expected a new name' in refusal(*words.split())
    says(words, '--overwrite --compressed')
    assert len(read_bag(out).frames) == 4


@pytest.mark.parametrize('speed', ['7.5', 'trace.csv'])
def test_gives_a_speed_to_a_source_without_one(tmp_path, says, speed, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_coco(Path('val.json'), {'a.png': grey(20, 30), 'b.png': grey(20, 30)}, [], ['vehicle'])
    Path('trace.csv').write_text('stamp_s,speed_mps\n0,7.5\n60,7.5\n')
    says('bag . a.mcap --speed', speed)
    assert speeds_mps(read_bag(Path('a.mcap'))) == pytest.approx([7.5, 7.5])


@pytest.mark.parametrize(
    'arguments, message',
    [
        (['nowhere', 'out.mcap'], "source 'nowhere' does not exist"),
        (['drive', 'out.mcap', '--max-frames', '0'], '--max-frames is 0'),
        (['drive:seconds=0.2', 'out.mcap', '--speed', 'gone.csv'], 'gone.csv does not exist'),
        (['drive', 'out.mcap', '--rate-hz', '-1'], 'rate is -1.0 Hz'),
    ],
)
def test_expected_errors_are_told(tmp_path, monkeypatch, refusal, arguments, message):
    monkeypatch.chdir(tmp_path)
    error = refusal('bag', *arguments)
    assert error.startswith('deadline-perception bag: ') and message in error
    assert list(tmp_path.iterdir()) == []
