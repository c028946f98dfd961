"""Prepares the segments of a network as a node is configured, with progress in its log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rclpy.impl.rcutils_logger import RcutilsLogger

from deadline_perception.system import preparation


def prepare_segments(
    weights: Path, threads: int, log: RcutilsLogger, on_progress: Callable[[str], None]
) -> None:
    """Prepare segments as `system.preparation` does; after a failure, which is logged, the network runs eagerly.

    Args:
        weights: file of the network.
        threads: threads per network operation that the segments are prepared for.
        log: of the node.
        on_progress: gets how far it is, a line every 20 s.
    """
    log.info(f'prepares the segments of {weights} for this device, once, in about a minute')
    on_progress('preparing segments')

    def tell(words: str) -> None:
        log.info(words)
        on_progress(words)

    failure = preparation.prepare_segments(weights, threads, tell)
    if failure:
        log.warning(f'segments stay unprepared, and run eagerly: {failure}')
