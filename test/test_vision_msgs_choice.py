"""`cmake/find_vision_msgs.cmake`: whether the build generates vision_msgs or takes an installed one."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CHOICE = Path(__file__).parents[1] / 'cmake' / 'find_vision_msgs.cmake'
CMAKE = shutil.which('cmake')
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CMAKE is None, reason='cmake is not installed')]


def configure(folder):
    """What a project that only chooses says, with its install prefix and a system prefix in the folder."""
    (folder / 'CMakeLists.txt').write_text(
        f'cmake_minimum_required(VERSION 3.20)\nproject(chooser NONE)\ninclude({CHOICE})\n'
        f'message(STATUS "generated: ${{generate_vision_msgs}}")\n'
    )
    own, system = folder / 'own', folder / 'system'
    places = f'-DCMAKE_INSTALL_PREFIX={own}', f'-DCMAKE_PREFIX_PATH={own};{system}'
    environment = {**os.environ, 'PATH': os.defpath}  # it also looks beside an activated one
    command = [CMAKE, '-S', folder, '-B', folder / 'build', *places]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout + ' '.join(result.stderr.split())


def install(prefix):
    config = prefix / 'share' / 'vision_msgs' / 'cmake' / 'vision_msgsConfig.cmake'
    config.parent.mkdir(parents=True)
    config.write_text('')
    return config


def test_takes_what_is_installed_also_beside_this_package(tmp_path):
    config = install(tmp_path / 'own')
    output = configure(tmp_path)
    assert f'the installed one is used, {config.parent}' in output and 'generated: OFF' in output


def test_generates_what_is_not_installed_until_the_system_gets_it(tmp_path):
    output = configure(tmp_path)
    assert 'vision_msgs: not installed' in output and 'generated: ON' in output
    # As the install step of a build that generates vision_msgs does.
    manifest = tmp_path / 'build' / 'vision_msgs' / 'install_manifest.txt'
    manifest.parent.mkdir(parents=True)
    manifest.write_text(f'{install(tmp_path / "own")}\n')
    assert 'generated: ON' in configure(tmp_path)
    config = install(tmp_path / 'system')
    output = configure(tmp_path)
    assert f'the installed one is used, {config.parent}' in output and 'generated: OFF' in output
    hides = f'generated vision_msgs into {tmp_path / "own"}, where it hides the installed one'
    assert hides in output
    shutil.rmtree(tmp_path / 'system')
    assert 'generated: ON' in configure(tmp_path)
