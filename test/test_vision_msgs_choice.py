"""`cmake/find_vision_msgs.cmake`: whether the build generates vision_msgs or takes an installed one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHOICE = Path(__file__).parents[1] / 'cmake' / 'find_vision_msgs.cmake'
without_cmake = shutil.which('cmake') is None
pytestmark = [pytest.mark.slow, pytest.mark.skipif(without_cmake, reason='cmake is not installed')]


@pytest.fixture
def configure(tmp_path):
    """Configures a project that only chooses, with its install prefix and a system prefix under `tmp_path`."""
    (tmp_path / 'CMakeLists.txt').write_text(
        f'cmake_minimum_required(VERSION 3.20)\nproject(chooser NONE)\ninclude({CHOICE})\n'
        f'message(STATUS "generated: ${{generate_vision_msgs}}")\n'
    )

    def run() -> str:
        places = [
            f'-DCMAKE_INSTALL_PREFIX={tmp_path / "own"}',
            f'-DCMAKE_PREFIX_PATH={tmp_path / "own"};{tmp_path / "system"}',
        ]
        result = subprocess.run(
            [shutil.which('cmake'), '-S', tmp_path, '-B', tmp_path / 'build', *places],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, 'PATH': os.defpath},  # it also looks beside an activated environment
        )
        assert result.returncode == 0, result.stderr
        return result.stdout + ' '.join(result.stderr.split())

    return run


def install(prefix):
    config = prefix / 'share' / 'vision_msgs' / 'cmake' / 'vision_msgsConfig.cmake'
    config.parent.mkdir(parents=True)
    config.write_text('')
    return config


def install_generated(tmp_path):
    """Does what the install step of a build that generates vision_msgs does."""
    manifest = tmp_path / 'build' / 'vision_msgs' / 'install_manifest.txt'
    manifest.parent.mkdir(parents=True)
    manifest.write_text(f'{install(tmp_path / "own")}\n')


def test_takes_what_is_installed_also_beside_this_package(configure, tmp_path):
    config = install(tmp_path / 'own')
    output = configure()
    assert f'the installed one is used, {config.parent}' in output and 'generated: OFF' in output


def test_generates_what_is_not_installed_until_the_system_gets_it(configure, tmp_path):
    output = configure()
    assert 'vision_msgs: not installed' in output and 'generated: ON' in output
    install_generated(tmp_path)
    assert 'generated: ON' in configure()
    config = install(tmp_path / 'system')
    output = configure()
    assert f'the installed one is used, {config.parent}' in output and 'generated: OFF' in output
    hides = f'generated vision_msgs into {tmp_path / "own"}, where it hides the installed one'
    assert hides in output
    shutil.rmtree(tmp_path / 'system')
    assert 'generated: ON' in configure()
