"""Region features as one weighted sum of rows against torchvision's RoIAlign: time ratio and largest difference.

    python benchmarks/region_features.py [--device cpu] [--threads 1]
"""
from __future__ import annotations

import argparse
import json
import statistics
import sys
from datetime import date
from pathlib import Path

import torch
from torchvision.ops import roi_align

from deadline_perception.detector.heads import BINS, region_features
from deadline_perception.detector.proposals import STRIDES, pyramid_levels
from deadline_perception.latency.device import check_device, read_device_facts, use_threads
from deadline_perception.latency.stopwatch import now_ms, synchronise
from deadline_perception.tools.command_line import exit_status

RESULTS = Path(__file__).parent / 'results'
ROUNDS = 30


def torchvisions(levels: list[torch.Tensor], boxes: torch.Tensor, box_levels: torch.Tensor) -> torch.Tensor:
    """The same features by one call per level of torchvision's operator."""
    channels = levels[0].shape[1]
    out = levels[0].new_empty((len(boxes), BINS * BINS, channels))
    for level, stride in enumerate(STRIDES):
        chosen = (box_levels == level).nonzero()[:, 0]
        rois = torch.cat((boxes.new_zeros(len(chosen), 1), boxes[chosen]), 1)
        cut = roi_align(levels[level], rois, BINS, 1 / stride, 2, aligned=True)
        out[chosen] = cut.permute(0, 2, 3, 1).flatten(1, 2)
    return out.flatten(1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--device', default='cpu', help='cpu, cuda or cuda:INDEX')
    parser.add_argument('--threads', type=int, default=1, help='CPU threads')
    args = parser.parse_args()
    check_device(args.device)
    use_threads(args.threads)
    torch.manual_seed(0)
    levels = [torch.randn(1, 64, 384 // stride, 640 // stride, device=args.device)
              .contiguous(memory_format=torch.channels_last) for stride in STRIDES]
    rows = []
    for regions in (10, 50, 100, 300):
        low = torch.rand(regions, 2) * torch.tensor([560.0, 320.0])
        boxes = torch.cat((low, low + torch.rand(regions, 2) ** 2 * 240 + 6), 1).to(args.device)
        box_levels = pyramid_levels(boxes, len(STRIDES))
        times: dict[str, list[float]] = {'ours_ms': [], 'torchvision_ms': []}
        with torch.inference_mode():
            for _ in range(ROUNDS):
                for name, function in (('ours_ms', region_features), ('torchvision_ms', torchvisions)):
                    started = now_ms()
                    function(levels, boxes, box_levels)
                    synchronise(args.device)
                    times[name].append(now_ms() - started)
            difference = (region_features(levels, boxes, box_levels)
                          - torchvisions(levels, boxes, box_levels)).abs().max()
        median = {name: statistics.median(values) for name, values in times.items()}
        ratio = statistics.median(b / a for a, b in zip(times['ours_ms'], times['torchvision_ms']))
        rows.append({'regions': regions, **{k: round(v, 3) for k, v in median.items()},
                     'torchvision_over_ours': round(ratio, 2), 'largest_difference': float(difference)})
        print(f'{regions:4d} regions: ours {median["ours_ms"]:.2f} ms, torchvision {median["torchvision_ms"]:.2f} ms, '
              f'ratio {ratio:.1f}, largest difference {float(difference):.1e}')
    facts = read_device_facts(args.device)
    file = RESULTS / 'region_features.json'
    file.write_text(json.dumps({'date': date.today().isoformat(), 'device': facts.name, 'threads': args.threads,
                                'rows': rows}, indent=1) + '\n')
    print(f'wrote {file.relative_to(RESULTS.parents[1])}')


if __name__ == '__main__':
    sys.exit(exit_status(Path(__file__).name, main))
