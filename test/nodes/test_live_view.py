"""The node shows a frame when its image and all that the detector says of it have come."""

from __future__ import annotations

import urllib.request

import pytest
from waiting import free_port


def test_listens_and_serves_its_page(start_node, wait_for):
    pytest.importorskip('rerun')
    web, data = free_port(), free_port()
    node = start_node('live_view', {'web_port': web, 'data_port': data})

    def page() -> bool:
        try:
            with urllib.request.urlopen(f'http://localhost:{web}/', timeout=5) as answer:
                return b'<html' in answer.read().lower()
        except OSError:
            return False

    wait_for(page, 'the page')
    assert node.process.poll() is None
