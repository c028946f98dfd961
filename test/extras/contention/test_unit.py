import statistics
from pathlib import Path

import pytest
import torch

from deadline_perception.extras.contention.load import ContentionLoad


@pytest.mark.skipif(not torch.cuda.is_available(), reason='no CUDA device')
def test_a_unit_on_a_gpu_slows_work_on_it_and_is_gone_afterwards():
    values = torch.rand(4096, 4096, device='cuda')

    def typical_ms():
        taken = []
        for _ in range(30):
            begun, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begun.record()
            values @ values
            ended.record()
            torch.cuda.synchronize()
            taken.append(begun.elapsed_time(ended))
        return statistics.median(taken)

    idle_ms = typical_ms()
    with ContentionLoad({'gpu': 2}, share=1.0, at_work=True) as load:
        pids = load.pids
        assert typical_ms() > idle_ms
    assert not any(Path(f'/proc/{pid}').exists() for pid in pids)
