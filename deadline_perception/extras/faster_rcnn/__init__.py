"""The Faster R-CNN of the multi-path paper, with all of its operators.

`street` is the detector of the suite; this one reproduces the paper (research/multi_path), in shapes from `compact` to
`paper`. It shares operators, heads, segments and files with `street` (`networks/multi_path`), and has what differs:

- `configuration.py`: its shapes; `declaration.py`: what can be decided of them.
- `backbone.py`: residual blocks and pyramid; `group_norm.py`: their norm where a shape asks for it.
- `proposals.py`: the region proposal network and DynamicProposals.
- `outline.py`: the detector without its layers; `network.py`: with them.

The suite finds its shapes and classes by the names in `networks/multi_path/configuration.py`.
"""
