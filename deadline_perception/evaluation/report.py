"""Writes what a recorded run showed: summary.json for programs and report.html for people."""
from __future__ import annotations

import json
import os
from collections.abc import Sequence as Strings
from pathlib import Path

from deadline_perception.datasets.class_names import counted
from deadline_perception.datasets.records import Sequence
from deadline_perception.evaluation.gallery import Picture, gallery
from deadline_perception.evaluation.recording import Recording
from deadline_perception.evaluation.report_page import report_page
from deadline_perception.evaluation.summary import summarise


def write_report(recording: Recording, out: Path, *, source: Sequence | None = None, facts: dict[str, str] | None = None,
                 notes: Strings[str] = ()) -> dict:
    """Writes `summary.json` and `report.html` into a folder; returns the content of the summary.

    Args:
        recording: the run.
        out: folder, made when absent.
        source: the images that were played; without them the page has no pictures and says so.
        facts: what is known of the machine, label to value.
        notes: sentences that a reader must know, such as what of the source was left out.
    """
    facts = facts or {}
    notes = [*notes, *filter(None, [recording.ending])]
    pictures: list[Picture] = []
    if source is None:
        notes.append('The images were not at hand, so no pictures are shown.')
    else:
        pictures = gallery(recording, source)
        if not pictures:
            notes.append(f'The images of {source.name} could not be matched with the stamps of the recording, '
                         f'so no pictures are shown.')
    if recording.unknown_objects:
        notes.append('Not scored, because the network does not know their class: '
                     f'{counted(recording.unknown_objects)}.')
    summary = summarise(recording, facts)
    out = Path(out)
    out.mkdir(parents=True, exist_ok=True)
    _replace(out / 'summary.json', json.dumps(summary, indent=2, allow_nan=False) + '\n')
    _replace(out / 'report.html', report_page(recording, summary, pictures, facts, notes))
    return summary


def _replace(file: Path, text: str) -> None:
    """Writes a file in one step, so that a reader never sees half of it."""
    unfinished = file.with_name(file.name + '.part')
    unfinished.write_text(text, encoding='utf-8')
    os.replace(unfinished, file)
