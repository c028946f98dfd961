"""The benchmark of killed commands: what a real one leaves, and what must not pass."""
from __future__ import annotations

import time

import pytest


@pytest.fixture(scope='module')
def killed_commands(load_benchmark):
    return load_benchmark('killed_commands')


def kind(module, name):
    return next(one for one in module.KINDS if one.name == name)


def test_files_that_do_not_belong_together_are_found(killed_commands, tmp_path):
    training, verdict = kind(killed_commands, 'train'), killed_commands.Verdict('train')
    training.prepare(tmp_path)
    killed_commands.whole_run(training, tmp_path, training.first(tmp_path), verdict)
    assert not verdict.why and training.check(tmp_path) >= 1
    for name, content in (('state.jsonl', b'{"step": 2}\n'), ('weights.safetensors', b'half of it')):
        why = []
        before = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content)
        assert killed_commands.progress_of(training, tmp_path, why) == 0 and why[0].startswith('not usable: ')
        (tmp_path / name).write_bytes(before)
    assert training.check(tmp_path) >= 1


def test_a_process_that_outlives_its_command_is_found(killed_commands, tmp_path):
    process = killed_commands.subprocess.Popen(['sh', '-c', 'sleep 60 & wait'], start_new_session=True)
    try:
        until = time.monotonic() + 10.0
        while len(killed_commands.of_session(process.pid)) < 2:
            assert time.monotonic() < until
            time.sleep(0.05)
        process.kill()
        process.wait()
        assert len(killed_commands.of_session(process.pid)) == 1
    finally:
        killed_commands.end(process)
