import torch
from made_up_detector import TINY
from torchvision.ops import nms

from deadline_perception.extras.faster_rcnn.outline import PROPOSAL_DELTA_WEIGHTS
from deadline_perception.extras.faster_rcnn.proposals import lay_out_anchors
from deadline_perception.networks.multi_path import boxes as box_ops

SIZE = (64, 96)
ANCHORS = lay_out_anchors(TINY, SIZE, torch.device('cpu'))


def test_proposals_equal_a_plain_selection(tiny_network):
    """Without a limit per level: all anchors decoded, suppressed at 0.7 in the order of their scores."""
    torch.manual_seed(1)
    logits = [torch.randn(1, len(level)) for level in ANCHORS]
    deltas = [torch.randn(1, len(level), 4) * 0.2 for level in ANCHORS]
    tiny_network.select_proposals.candidates = 10**6
    kept = tiny_network.select_proposals(logits, deltas, 10**6, SIZE)
    boxes = box_ops.clip(
        box_ops.decode(torch.cat(deltas, 1)[0], torch.cat(ANCHORS), PROPOSAL_DELTA_WEIGHTS), SIZE
    )
    scores = torch.cat(logits, 1)[0]
    large = ((boxes[:, 2:] - boxes[:, :2]) >= 2.0).all(1)
    boxes, scores = boxes[large], scores[large]
    expected = boxes[nms(boxes, scores, 0.7)]
    torch.testing.assert_close(kept[: len(expected)], expected)
    assert not kept[len(expected) :].any()
