"""What promises to work without torch loads without it, and no files import each other in a circle; the rest
`lint-imports` checks."""

import ast
from graphlib import TopologicalSorter

import grimp
from python_run import run_python

TORCH_FREE = (
    'core',
    'decision',
    'engines.eager',
    'extras.data',
    'extras.evaluation',
    'extras.external_models.exported',
    'extras.rendered_drive',
    'extras.report',
    'extras.several_networks.classifier.classes',
    'extras.several_networks.classifier.crop',
    'extras.several_networks.scheduling',
    'runtime',
    'system',
    'timing',
)
LOAD = """
import importlib, pkgutil, sys
for part in sys.argv[1:]:
    module = importlib.import_module(f'deadline_perception.{part}')
    for found in pkgutil.walk_packages(getattr(module, '__path__', ()), f'{module.__name__}.'):
        importlib.import_module(found.name)
        if 'torch' in sys.modules:
            sys.exit(f'{found.name} loads torch')
print(len(sys.modules))
"""


def test_no_files_import_each_other_in_a_circle():
    graph = grimp.build_graph('deadline_perception')
    written = [name for name in graph.modules if not name.startswith('deadline_perception.msg')]
    assert len(written) > 300
    TopologicalSorter(
        {name: graph.find_modules_directly_imported_by(name) for name in written}
    ).prepare()


def test_parts_load_without_torch_nor_the_package_itself_anything(repository):
    done = run_python('-c', LOAD, *TORCH_FREE)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 300  # otherwise nothing was loaded
    top = ast.parse((repository / 'deadline_perception' / '__init__.py').read_text())
    loaded = [node.module for node in top.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert loaded == ['__future__', 'typing']
