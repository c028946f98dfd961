from pathlib import Path

import pytest
from processor_facts import measure_bandwidth_gb_s, read_cpu_lanes


@pytest.mark.parametrize(
    ('flags', 'lanes'), [('sse2 avx avx2 avx512f', 16), ('sse2 avx avx2', 8), ('fp asimd', 4)]
)
def test_lanes_of_a_cpu(tmp_path: Path, flags: str, lanes: int) -> None:
    file = tmp_path / 'cpuinfo'
    file.write_text(f'processor : 0\nflags : {flags}\n', encoding='utf-8')
    assert read_cpu_lanes(file) == lanes
    assert read_cpu_lanes(tmp_path / 'absent') == 4


def test_bandwidth_is_some() -> None:
    pytest.importorskip('torch')
    assert measure_bandwidth_gb_s('cpu') > 0
