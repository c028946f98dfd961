from __future__ import annotations

from dataclasses import replace

import pytest
import roads
import torch
from test_hard_swish import SMALL

from deadline_perception.extras.external_models.public_yolox import build_yolox
from deadline_perception.extras.training.yolox_training import Answers, answers_of

SIZE = (96, 160)


def network(seed):
    torch.manual_seed(seed)
    return build_yolox(replace(SMALL, activation='hard_swish'), ('vehicle', 'person')).eval()


def test_what_is_kept_is_least_for_the_teacher_s_own_answers():
    torch.manual_seed(2)
    corners = torch.rand(1, 50, 2) * 60.0
    wanted = Answers(
        torch.cat((corners, corners + 10.0 + torch.rand(1, 50, 2) * 30.0), 2),
        torch.randn(1, 50),
        -torch.rand(1, 50, 2),
    )
    sure = (1.0 - wanted.absent.sum(2).exp()) * wanted.objectness.sigmoid()
    same = replace(wanted, objectness=torch.logit(sure))  # it learns objects of its classes alone
    least = roads.kept_knowledge(same, wanted)
    for other in (
        replace(same, boxes=same.boxes + 3.0),
        replace(same, objectness=same.objectness + 0.5),
        replace(same, absent=same.absent - 0.5),
    ):
        assert roads.kept_knowledge(other, wanted) > 1.01 * least


def test_half_of_a_batch_is_taken_with_all_that_was_answered_to_it():
    pixels = torch.rand(4, 3, *SIZE) * 255.0
    answers = answers_of(network(0), pixels)
    part = roads.part_of(answers, 1, 3)
    alone = answers_of(network(0), pixels[1:3])
    for name in ('boxes', 'objectness', 'absent'):
        torch.testing.assert_close(getattr(part, name), getattr(alone, name), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(('texts', 'expected'), [(['drive:seed=7,seconds=1=0.25'], [0.25])])
def test_a_source_s_share_stands_behind_its_last_sign(texts, expected):
    sources, shares = roads.with_shares(texts)
    assert shares == expected and len(sources) == 1 and sources[0].frames
