"""Hooks of the site: its start page is the README, and its API reference is made of docstrings."""

from __future__ import annotations

from pathlib import Path

from mkdocs.structure.files import File

MODULES = (
    'deadline_perception.deadline_detector',
    'deadline_perception.runtime.answer',
    'deadline_perception.runtime.detection_stream',
    'deadline_perception.core.detections',
    'deadline_perception.core.execution_path',
    'deadline_perception.extras.data.source',
    'deadline_perception.extras.report.live_view',
)


def on_files(files, config):
    """Adds both pages."""
    readme = Path(config.config_file_path).with_name('README.md').read_text('utf-8')
    files.append(File.generated(config, 'index.md', content=readme.replace('(docs/', '(')))
    reference = '\n\n'.join(f'::: {module}' for module in MODULES)
    files.append(File.generated(config, 'api.md', content=f'# API reference\n\n{reference}\n'))
    return files
