from __future__ import annotations

from dataclasses import replace

import roads
import torch

from deadline_perception.extras.training.yolox_training import Answers


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
