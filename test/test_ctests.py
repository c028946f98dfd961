import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
RESEARCH = TESTS.parent / 'research'
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which('cmake') is None or shutil.which('ctest') is None,
        reason='cmake is not installed on the system',
    ),
]


def test_every_test_is_run_once_within_a_limit_of_its_part(tmp_path):
    pytest.importorskip('ament_package', reason='ament comes with ROS')
    (tmp_path / 'CMakeLists.txt').write_text(
        'cmake_minimum_required(VERSION 3.20)\nproject(tests NONE)\nenable_testing()\n'
        'find_package(ament_cmake_core REQUIRED)\nfind_package(ament_cmake_test REQUIRED)\n'
        f'include({TESTS.parent}/cmake/add_tests.cmake)\n'
    )
    (tmp_path / 'package.xml').write_text(
        '<package format="3"><name>tests</name><version>0.0.0</version><description>d</description>'
        '<maintainer email="a@b.org">a</maintainer><license>Apache-2.0</license></package>'
    )
    # Each ctest asks whether there is a pytest, which takes a third of a second to say so: there is one.
    (tmp_path / 'quick').mkdir()
    (tmp_path / 'quick' / 'pytest.py').touch()
    modules = os.pathsep.join([str(tmp_path / 'quick'), os.environ.get('PYTHONPATH', '')])
    places = f'{sys.prefix}{os.pathsep}{os.environ.get("AMENT_PREFIX_PATH", "")}'
    build = tmp_path / 'build'
    command = ['cmake', '-S', tmp_path, '-B', build, f'-DPython3_EXECUTABLE={sys.executable}']
    environment = {**os.environ, 'PYTHONPATH': modules.rstrip(os.pathsep)}
    environment |= {'CMAKE_PREFIX_PATH': places, 'AMENT_PREFIX_PATH': places}
    checked = {'check': True, 'capture_output': True}
    subprocess.run([*command, '-Wno-dev'], env=environment, **checked)
    listing = subprocess.run(['ctest', '--show-only=json-v1'], cwd=build, **checked)
    listed = json.loads(listing.stdout)['tests']
    run = []
    for test in listed:
        roots = f'{TESTS}{os.sep}', f'{RESEARCH}{os.sep}'
        place = next(Path(word) for word in test['command'] if word.startswith(roots))
        run += sorted(place.rglob('test_*.py')) if place.is_dir() else [place]
        limits_s = [entry['value'] for entry in test['properties'] if entry['name'] == 'TIMEOUT']
        assert limits_s and 600 <= limits_s[0] <= 1800
    assert sorted(run) == sorted([*TESTS.rglob('test_*.py'), *RESEARCH.rglob('test_*.py')])
    assert len(listed) > 50
