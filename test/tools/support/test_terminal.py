from deadline_perception.tools.support import terminal
from deadline_perception.tools.support.terminal import print_table, progress_bar

NAME = 'sign [/stop] [red] :car:'


def test_texts_are_shown_as_they_are(capsys):
    """As markup, the first would end the command after its work, and the others would be swallowed."""
    form = {'left': ('class',), 'caption': NAME, 'no_wrap': True, 'least_width': 110}
    print_table(NAME, ('class', '[b]n'), [(NAME, '1')], **form)
    with progress_bar(NAME, 1.0) as update:
        update(completed=1.0)
    said = capsys.readouterr()
    assert said.out.count(NAME) == 3 and '[b]n' in said.out and NAME in said.err


def test_a_bar_that_no_terminal_shows_is_a_line_now_and_then(capsys, monkeypatch):
    monkeypatch.setattr(terminal, '_LINE_EVERY_S', 0.0)
    with progress_bar('preparing', 3, 'count', '{task.fields[latest]}', latest='') as update:
        update(completed=2, latest='stem')
        said = capsys.readouterr().err
        assert said.count('\n') == 1 and said.startswith('preparing') and '2/3 stem' in said
