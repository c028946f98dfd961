"""Style sheet and script of the report page, kept inside it so that the page needs nothing else."""
from __future__ import annotations

STYLE = """
:root { color-scheme: light dark;
  --page: #f5f6f8; --card: #ffffff; --ink: #16202c; --muted: #5b6875; --grid: #e1e5ea; --accent: #1559b7;
  --good: #15803d; --bad: #c02626; --good-soft: #e4f5ea; --bad-soft: #fdeaea; --warn-soft: #fff4dc; --warn: #8a5a00;
  --budget: #16202c; --latency: #1f77d0; --bound: #d98a00; --miss: #c02626; --infeasible: #9333ea;
  --coasted: #b45309; --speed: #0f8a6d; --slowdown: #b8336a;
  --level0: #d8e6f5; --level1: #a9cbec; --level2: #6ba6dc; --level3: #2f7cc4; --level4: #0f4c8f;
  --phase-age: #b6bec8; --phase-queue: #a07c5a; --phase-node: #e07a5f; --phase-network0: #f2cc8f;
  --phase-network1: #2f7cc4; --phase-network2: #3aa17e;
  --phase-network3: #8a63c9; --phase-network4: #c95d94; --phase-network5: #8d8f3a; }
:root[data-theme=dark] {
  --page: #10151b; --card: #19212a; --ink: #e8edf2; --muted: #9aa8b6; --grid: #2c3742; --accent: #7db5ff;
  --good: #5fd18a; --bad: #ff7b7b; --good-soft: #16311f; --bad-soft: #3a1d1f; --warn-soft: #352a12; --warn: #f0c060;
  --budget: #f3f6f9; --latency: #5aaaf5; --bound: #f2b134; --miss: #ff6b6b; --infeasible: #b98cff;
  --coasted: #ffa94d; --speed: #45cfa8; --slowdown: #f279a8;
  --level0: #22384f; --level1: #2c5480; --level2: #3d7bb8; --level3: #64a5e0; --level4: #a9d3fb;
  --phase-age: #66727f; --phase-queue: #c09a74; --phase-node: #e58a72; --phase-network0: #e9c27d;
  --phase-network1: #4a94dd; --phase-network2: #4cba95;
  --phase-network3: #a683e0; --phase-network4: #dd7bae; --phase-network5: #b3b55a; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.55 system-ui, 'Segoe UI', 'DejaVu Sans',
  sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 28px 24px 60px; }
header { display: flex; justify-content: space-between; gap: 20px; align-items: flex-start; margin-bottom: 6px; }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -.01em; }
h2 { font-size: 18px; margin: 0 0 4px; }
p { margin: 4px 0 12px; } .note { color: var(--muted); max-width: 110ch; }
section { background: var(--card); border: 1px solid var(--grid); border-radius: 12px; padding: 20px 22px;
  margin-top: 18px; }
button { font: inherit; font-size: 13px; color: var(--muted); background: var(--card); border: 1px solid var(--grid);
  border-radius: 8px; padding: 5px 12px; cursor: pointer; white-space: nowrap; }
.verdict { border-radius: 12px; padding: 14px 20px; margin: 16px 0 0; font-size: 16px; border: 1px solid; }
.verdict.good { background: var(--good-soft); border-color: var(--good); }
.verdict.fair { background: var(--warn-soft); border-color: var(--warn); }
.verdict.bad { background: var(--bad-soft); border-color: var(--bad); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(310px, 100%), 1fr)); gap: 14px;
  margin-top: 18px; }
.number { background: var(--card); border: 1px solid var(--grid); border-radius: 12px; padding: 14px 18px; }
.number b { display: block; font-size: 28px; line-height: 1.25; font-weight: 650; font-variant-numeric: tabular-nums; }
.number .label { font-weight: 600; } .number .plain { color: var(--muted); font-size: 13.5px; line-height: 1.45; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--muted); }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; color: var(--muted); margin: 6px 0 8px; }
.legend i { display: inline-block; width: 13px; height: 13px; border-radius: 3px; margin-right: 6px;
  vertical-align: -2px; } .legend i.line { height: 3px; vertical-align: 4px; }
.legend i.shade { opacity: .3; } .legend strong { color: var(--ink); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
th { text-align: left; color: var(--muted); font-weight: 600; } th, td { padding: 6px 12px 6px 0; vertical-align: top;
  border-bottom: 1px solid var(--grid); } td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
td code { white-space: nowrap; } code { font: 12.5px ui-monospace, 'DejaVu Sans Mono', monospace; }
.tag { font-size: 12px; border-radius: 6px; padding: 1px 8px; white-space: nowrap; }
.tag.good { color: var(--good); background: var(--good-soft); } .tag.bad { color: var(--bad);
  background: var(--bad-soft); }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(460px, 100%), 1fr)); gap: 16px; }
figure { margin: 0; } figure img { width: 100%; border-radius: 8px; display: block; }
figcaption { font-size: 13px; color: var(--muted); padding-top: 5px; }
.split { display: grid; grid-template-columns: 1fr 1fr; gap: 18px; } .split section { min-width: 0; }
@media (max-width: 860px) { .split { grid-template-columns: 1fr; } }
.flow { display: flex; height: 26px; border-radius: 7px; overflow: hidden; margin: 8px 0; background: var(--grid); }
.flow div { min-width: 2px; } .chart { position: relative; }
.cursor { position: absolute; top: 0; bottom: 34px; width: 1px; background: var(--ink); opacity: .45; display: none;
  pointer-events: none; }
#readout { min-height: 47px; font-size: 13.5px; border-top: 1px solid var(--grid); padding-top: 7px; margin-top: 6px;
  color: var(--muted); } #readout b { color: var(--ink); }
@media print { button, #readout { display: none; } section { break-inside: avoid; } }
"""

# Shows the frame under the pointer on every time axis at once; the page is complete without it.
SCRIPT = """
(function () {
  const root = document.documentElement, button = document.getElementById('theme');
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const show = on => { root.dataset.theme = on ? 'dark' : 'light'; button.textContent = on ? 'Light' : 'Dark'; };
  show(dark.matches);
  dark.addEventListener('change', event => show(event.matches));
  button.addEventListener('click', () => show(root.dataset.theme !== 'dark'));
  const run = JSON.parse(document.getElementById('frames').textContent);
  const charts = [...document.querySelectorAll('.chart')], readout = document.getElementById('readout');
  function point(event) {
    const box = event.currentTarget.getBoundingClientRect();
    const share = ((event.clientX - box.left) / box.width - run.left) / (run.right - run.left);
    if (share < 0 || share > 1 || !run.frames.length) return;
    const wanted = run.begin + share * (run.end - run.begin);
    const frame = run.frames.reduce((best, f) => Math.abs(f.t - wanted) < Math.abs(best.t - wanted) ? f : best);
    const at = run.left + (run.right - run.left) * (frame.t - run.begin) / (run.end - run.begin);
    for (const chart of charts) {
      const cursor = chart.querySelector('.cursor');
      cursor.style.left = 100 * at + '%';
      cursor.style.display = 'block';
    }
    readout.innerHTML = frame.text;
  }
  for (const chart of charts) chart.addEventListener('mousemove', point);
})();
"""
