import ast
import re
import sys
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement

try:
    import tomllib
except ImportError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).parents[1]
DISTRIBUTIONS = {
    'cv2': 'opencv-python-headless',
    'yaml': 'PyYAML',
    'backports': 'backports.zstd',
    'pynvml': 'nvidia-ml-py',
    'rerun': 'rerun-sdk',
}
# Extras that `make setup` does not install.
APART = ('benchmarks', 'docs', 'supervision', 'test', 'view')
PYPROJECT = tomllib.loads((ROOT / 'pyproject.toml').read_text(encoding='utf-8'))
# Declared in package.xml.
(OF_ROS,) = (
    set(contract['forbidden_modules'])
    for contract in PYPROJECT['tool']['importlinter']['contracts']
    if contract['name'] == 'Only nodes import ROS'
)


def normal(name):
    return re.sub(r'[-_.]+', '-', name).lower()


def groups():
    """The package's own dependencies in pyproject.toml, under an empty name, and those of each optional group."""
    project = PYPROJECT['project']
    optional = dict(project['optional-dependencies'])
    (line,) = optional.pop('all')
    of_package = [name for name in optional if name not in APART and not name.startswith('ros-')]
    assert line == f'deadline_perception[{",".join(sorted(of_package))}]'
    return {'': project['dependencies'], **optional}


def declared(optional=True):
    """Names of what the package itself needs."""
    return {
        normal(Requirement(line).name)
        for name, lines in groups().items()
        for line in lines
        if not name
        or optional
        and name not in ('benchmarks', 'docs', 'test')
        and not name.startswith('ros-')
    }


def imported():
    """Modules that the package imports, also within functions, each with the folders that do."""
    found, package = {}, ROOT / 'deadline_perception'
    for file in package.rglob('*.py'):
        for node in ast.walk(ast.parse(file.read_text(encoding='utf-8'))):
            names = [node.module] if isinstance(node, ast.ImportFrom) and not node.level else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                found.setdefault(name, set()).add(file.relative_to(package).parts[0])
    return found


def test_what_is_imported_is_declared_no_research_messages_by_nodes_alone_and_heavy_ones_optional():
    names = imported()
    assert names['deadline_perception.msg'] == {'nodes'}
    tops = {name.partition('.')[0] for name in names}
    assert not tops & {'research', *(file.stem for file in ROOT.glob('research/*/*.py'))}
    others = tops - set(sys.stdlib_module_names) - {'deadline_perception'}
    assert {normal(DISTRIBUTIONS.get(name, name)) for name in others - OF_ROS} <= declared()
    package = (ROOT / 'package.xml').read_text()
    assert all(re.search(f'<(exec_)?depend>{name}<', package) for name in others & OF_ROS)
    assert {'apsw', 'zstandard', 'torch'} <= others  # otherwise nothing was looked at
    assert 'openvino' in declared(optional=False)  # without it a detector is nine times slower
    heavy = 'nncf torch torchvision rerun-sdk matplotlib rosbags mcap pycocotools'
    assert not set(heavy.split()) & declared(optional=False)


def test_a_robot_gets_the_versions_that_the_suite_passed_with():
    readme = (ROOT / 'README.md').read_text()
    line = re.search(r'^pip install (-c .*?[^\\])\n', readme, re.M | re.S)[1]
    assert '-c <(grep -v ^numpy src/deadline_perception/constraints.txt)' in line
    constraints = (ROOT / 'constraints.txt').read_text()
    pinned = set(map(normal, re.findall(r'^([\w.-]+)==', constraints, re.M)))
    words = line.partition('#')[0].partition(')')[2].split()
    wanted = {normal(word) for word in words if re.fullmatch(r'[\w-]+', word)}
    assert len(wanted) > 10 and wanted <= pinned
    assert declared() - {'rerun-sdk'} <= pinned  # of the live view, on laptops


def locked():
    """Name, version, marker and hashes of each line of the files that `make setup` installs from."""
    lines = [
        line
        for name in ('lock.txt', 'lock-develop.txt')
        for line in (ROOT / 'cmake' / name).read_text().splitlines()
        if not line.startswith('#')
    ]
    form = re.compile(r'([\w.-]+)==(\S+)(?: ; (.+?))?((?: --hash=sha256:[0-9a-f]{64})+)')
    return [form.fullmatch(line).groups() for line in lines]


@pytest.mark.parametrize('distro', ['jazzy'])
@pytest.mark.parametrize('python', ['3.10', '3.11', '3.12', '3.13'])
def test_set_up_installs_what_is_declared_and_pinned(distro, python):
    place = {'python_version': python, 'python_full_version': f'{python}.9'}
    place |= {'sys_platform': 'linux', 'platform_system': 'Linux', 'platform_machine': 'x86_64'}
    versions = {
        normal(name): version
        for name, version, marker, _ in locked()
        if not marker or Marker(marker).evaluate(place)
    }
    wanted = [
        Requirement(line)
        for name, lines in groups().items()
        for line in lines
        if not name.startswith('ros-') and name not in ('docs', 'view') or name == f'ros-{distro}'
    ]
    lines = (ROOT / 'constraints.txt').read_text().splitlines()
    pins = [Requirement(line) for line in lines if line[0] != '#']
    # not each is needed by each Python
    pins = [pin for pin in pins if normal(pin.name) in versions]
    assert len(wanted) > 40 and len(pins) > 60
    for one in wanted + pins:
        if not one.marker or one.marker.evaluate(place):
            assert one.specifier.contains(versions[normal(one.name)]), one


def test_set_up_installs_nothing_without_a_hash_and_actions_are_pinned_and_a_release_is_signed():
    lines = re.sub(r'\\\n *', '', (ROOT / 'cmake' / 'setup.sh').read_text()).splitlines()
    installs = [line for line in lines if 'pip install' in line and 'logged' in line]
    assert len(installs) == 3 and all(' --require-hashes ' in line for line in installs)
    workflows = {file.stem: file.read_text() for file in (ROOT / '.github/workflows').iterdir()}
    for action in re.findall(r'uses: (\S+)', ''.join(workflows.values())):
        assert re.search('@[0-9a-f]{40}$', action), action
    steps = yaml.safe_load(workflows['release'])['jobs']['release']['steps']
    runs = ' '.join(step.get('run', '') for step in steps)
    wanted = ('.ci/run', 'cyclonedx-py requirements', 'sigstore sign', 'gh release create')
    assert sorted(wanted, key=runs.index) == list(wanted)
