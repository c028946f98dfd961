import re
from pathlib import Path

from deadline_perception.extras.report import report

PAGE = Path(report.__file__).with_name('page.html.j2').read_text(encoding='utf-8')
STYLE = re.search(r'<style>\n(.*?)</style>', PAGE, re.DOTALL)[1]
SCRIPT = re.search(r'<script>\n(.*?)</script>', PAGE, re.DOTALL)[1]

VARIABLE = re.compile(r'(--[a-z0-9-]+):\s*(#[0-9a-f]{6})\b')


def scheme(selector: str) -> dict[str, str]:
    """The variables that a rule defines, with their colours."""
    rule = STYLE[STYLE.index(f'{selector} {{') :]
    return dict(VARIABLE.findall(rule[: rule.index('}')]))


def luminance(colour: str) -> float:
    """Relative luminance of `#rrggbb` as WCAG 2 defines it, in [0, 1]."""
    shares = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [
        share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares
    ]
    return sum(weight * share for weight, share in zip((0.2126, 0.7152, 0.0722), linear))


def test_page_asks_the_network_for_nothing():
    words = r'https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttpRequest|\bimport\b'
    assert not re.search(words, STYLE + SCRIPT)


def test_both_colour_schemes_define_the_same_variables():
    light, dark = scheme(':root'), scheme(':root[data-theme=dark]')
    assert set(light) == set(dark) and len(light) > 20
    assert luminance(light['--page']) > 0.8 and luminance(dark['--page']) < 0.05


def test_every_variable_that_is_used_is_defined():
    used = set(re.findall(r'var\((--[a-z0-9-]+)\)', STYLE))
    assert used <= set(scheme(':root')) and used
