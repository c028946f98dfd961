"""What the experiments on levels of contention make of their measurements; here with runs made up by hand."""

from pathlib import Path


def test_contenders_have_loaded_before_any_is_stopped(load_benchmark):
    with load_benchmark('contender_programs').Contenders({'fusion': 1}) as contenders:
        contenders.set({})
        (program,) = contenders._pool['fusion']
        assert 'ckdtree' in Path(f'/proc/{program.pid}/maps').read_text()
