"""Processes share a task out, and GPUs where there are fewer of them."""

import pytest
import torch

from deadline_perception.extras.workers import Workers, own_gpu


def test_workers_share_every_item_once():
    items = list(range(10))
    shares = [Workers(rank, 3).share(items) for rank in range(3)]
    assert sorted(sum(shares, [])) == items and max(map(len, shares)) - min(map(len, shares)) <= 1
    assert Workers(0, 3).share(items, 2) == shares[2]
    assert Workers().gather('alone') == ['alone'] and Workers().leads and not Workers(1, 3).leads
    with pytest.raises(ValueError, match='rank is 3 of 3 processes'):
        Workers(3, 3)


@pytest.mark.parametrize(
    'gpus, rank, expected',
    [(4, '3', 'cuda:3'), (1, '1', 'cuda:0'), (2, '3', 'cuda:1'), (0, '0', 'cuda:0')],
)
def test_processes_share_gpus_where_they_are_fewer(monkeypatch, gpus, rank, expected):
    monkeypatch.setenv('LOCAL_RANK', rank)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: gpus)
    assert own_gpu() == expected
