import re
from pathlib import Path

from deadline_perception.extras.report import report

PAGE = Path(report.__file__).with_name('page.html.j2').read_text(encoding='utf-8')
STYLE = re.search(r'<style>\n(.*?)</style>', PAGE, re.DOTALL)[1]
SCRIPT = re.search(r'<script>\n(.*?)</script>', PAGE, re.DOTALL)[1]


def test_page_asks_the_network_for_nothing():
    words = r'https?:|//[a-z]|url\(|@import|\bfetch\b|XMLHttpRequest|\bimport\b'
    assert not re.search(words, STYLE + SCRIPT)
