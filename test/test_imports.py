"""What promises to work without torch loads without it, and nothing imports research; the rest `lint-imports` checks."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = 'deadline_perception'
TORCH_FREE = (
    'core',
    'decision',
    'engines/eager.py',
    'extras/data',
    'extras/evaluation',
    'extras/external_models/exported',
    'extras/rendered_drive',
    'extras/report',
    'extras/several_networks/classifier/classes.py',
    'extras/several_networks/classifier/crop.py',
    'extras/several_networks/scheduling',
    'runtime',
    'system',
    'timing',
)
TORCH = {'torch', 'torchvision'}


@dataclass(frozen=True)
class Import:
    """One imported module: where it is imported, and whether that happens as soon as the file is loaded."""

    file: str  # below the package, such as decision/policy.py
    line: int
    module: str
    on_load: bool

    @property
    def imported_part(self) -> str:
        """Folder or top-level module of the package that is imported; empty for other packages."""
        names = self.module.split('.')
        return names[1] if names[0] == PACKAGE and len(names) > 1 else ''

    def __str__(self) -> str:
        return f'{self.file}:{self.line} imports {self.module}'


def imports_of(package: Path) -> list[Import]:
    """All imports of a package, also those inside functions and under TYPE_CHECKING."""
    found = []
    for file in sorted(package.rglob('*.py')):
        name = file.relative_to(package).as_posix()
        tree = ast.parse(file.read_text(encoding='utf-8'))
        on_load = set(_nodes_on_load(tree))
        for node in ast.walk(tree):
            found += [
                Import(name, node.lineno, module, node in on_load)
                for module in _modules(node, package)
            ]
    return found


def _nodes_on_load(tree: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        type_checking = isinstance(child, ast.If) and 'TYPE_CHECKING' in ast.dump(child.test)
        if not type_checking and not isinstance(
            child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
        ):
            yield child
            yield from _nodes_on_load(child)


def _modules(node: ast.AST, package: Path) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, (
            f'line {node.lineno}: imports name the true home, not a relative one'
        )
        # `from package.folder import name` may name a module of that folder, or a thing in it.
        folder = package.parent / node.module.replace('.', '/')
        return [
            f'{node.module}.{alias.name}'
            if (folder / f'{alias.name}.py').is_file() or (folder / alias.name).is_dir()
            else node.module
            for alias in node.names
        ]
    return []


def torch_on_load(imports: list[Import], file: str) -> str:
    """The chain of imports by which loading `file` loads torch; empty when it does not."""
    by_file: dict[str, list[Import]] = {}
    for found in imports:
        if found.on_load:
            by_file.setdefault(found.file, []).append(found)
    ways, seen = [(file, '')], {file}
    while ways:
        here, way = ways.pop()
        for found in by_file.get(here, []):
            chain = f'{way}, {found}' if way else str(found)
            if found.module.split('.')[0] in TORCH:
                return chain
            path = '/'.join(found.module.split('.')[1:])
            for following in (f'{path}.py', f'{path}/__init__.py'):
                if found.imported_part and following not in seen:
                    seen.add(following)
                    ways.append((following, chain))
    return ''


@pytest.fixture(scope='module')
def package(repository: Path) -> Path:
    return repository / PACKAGE


@pytest.fixture(scope='module')
def imports(package: Path) -> list[Import]:
    return imports_of(package)


def test_only_nodes_import_generated_messages(imports: list[Import]) -> None:
    files = {found.file for found in imports if found.imported_part == 'msg'}
    assert files and all(file.startswith('nodes/') for file in files)


def test_nothing_imports_research(repository: Path, imports: list[Import]) -> None:
    research = {file.stem for file in repository.glob('research/*/*.py')}
    assert [
        str(found) for found in imports if found.module.split('.')[0] in {'research', *research}
    ] == []


@pytest.mark.parametrize('part', TORCH_FREE)
def test_loads_without_torch(package: Path, imports: list[Import], part: str) -> None:
    root = package / part
    files = [root] if root.suffix else sorted(root.rglob('*.py'))
    chains = [torch_on_load(imports, file.relative_to(package).as_posix()) for file in files]
    assert [chain for chain in chains if chain] == []


def test_package_loads_nothing_at_the_top(package: Path) -> None:
    """It shares its place with the generated package, whose messages are loaded where nothing else is."""
    tree = ast.parse((package / '__init__.py').read_text(encoding='utf-8'))
    loaded = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert [node.module for node in loaded] == ['__future__', 'typing']


@pytest.fixture
def broken_package(tmp_path: Path) -> Path:
    """A package that loads torch where it should not."""
    files = {
        'decision/policy.py': 'from deadline_perception.networks import network\n',
        'networks/network.py': 'import torch\n',
        'timing/profile.py': 'def read():\n    import torch\n',
    }
    for name, text in files.items():
        file = tmp_path / PACKAGE / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding='utf-8')
    return tmp_path / PACKAGE


def test_torch_is_found_through_other_modules(broken_package: Path) -> None:
    imports = imports_of(broken_package)
    assert torch_on_load(imports, 'decision/policy.py') == (
        'decision/policy.py:1 imports deadline_perception.networks.network, networks/network.py:1 imports torch'
    )
    assert torch_on_load(imports, 'timing/profile.py') == ''
