"""Recordings that several tests ask, and images that fit them."""

from collections.abc import Callable
from importlib.util import find_spec

import pytest
from plain_images import grey
from recorded_run import NAMES, SECOND_NS, START_NS, RunWriter, write_drive

from deadline_perception.extras.data import records
from deadline_perception.extras.report import charts
from deadline_perception.extras.report.recorded_bag import read_recording
from deadline_perception.extras.report.recording import Recording

# What reads exported files and prepares segments needs it, which not every machine has.
collect_ignore_glob = [] if find_spec('openvino') else ['external_models/*', 'preparation/*']


@pytest.fixture(scope='session')
def drive(tmp_path_factory) -> Recording:
    """Six seconds at 10 Hz, with ground truth, replaced images and misses."""
    bag = tmp_path_factory.mktemp('drive') / 'run'
    write_drive(bag, frames=60)
    return read_recording(bag)


@pytest.fixture
def recorded(tmp_path_factory) -> Callable[..., Recording]:
    """Reads what was recorded of the given frames, each by fields of its FrameLatency; a second apart if unstamped.

    A `decision` among them is the fields of its PathDecision.
    """

    def write(*frames: dict) -> Recording:
        bag = tmp_path_factory.mktemp('recorded') / 'run'
        with RunWriter(bag) as run:
            for index, fields in enumerate(frames):
                fields = {'stamp_ns': START_NS + index * SECOND_NS} | fields
                decision = fields.pop('decision', None)
                run.latency(**fields)
                if decision is not None:
                    run.decision(fields['stamp_ns'], **decision)
        return read_recording(bag)

    return write


@pytest.fixture
def images() -> Callable[..., records.Sequence]:
    """Grey images at a fixed step."""

    def make(count: int, start_ns: int = 0, step_ns: int = SECOND_NS // 10) -> records.Sequence:
        frames = [
            records.Frame(str(index), start_ns + index * step_ns, lambda: grey(380, 640, 90))
            for index in range(count)
        ]
        return records.Sequence('plain', NAMES, tuple(frames))

    return make


@pytest.fixture
def no_charts(monkeypatch):
    """Pages without charts, which take a second to draw and have tests of their own."""
    for name in ('timeline', 'lanes', 'phases', 'bound_histogram'):
        monkeypatch.setattr(charts, name, lambda *_: '')
