"""Joins what several topics say of one frame by its stamp, in whatever order it comes."""

from __future__ import annotations

from typing import Any

from sensor_msgs.msg import CompressedImage, Image

from deadline_perception.nodes.messages import stamp_to_ns

Parts = dict[type, Any]  # messages of one frame, by type; an image of whatever form under `Image`


class FrameJoin:
    """Keeps the messages of the newest frames until all of a frame have come.

    An image may come last: it is larger than what is said of it.

    Args:
        parts: messages that a frame has, its image among them.
        frames: that are kept; the oldest goes when there are more.
    """

    def __init__(self, parts: int, frames: int = 20) -> None:
        self._count = parts
        self._most = frames
        self._waiting: dict[int, Parts] = {}

    def join(self, message: Any) -> Parts | None:
        """All messages of the frame of this one, if it is the last of them; else None."""
        stamp_ns = stamp_to_ns(message.header.stamp)
        parts = self._waiting.pop(stamp_ns, {})
        parts[Image if isinstance(message, CompressedImage) else type(message)] = message
        if len(parts) == self._count:
            return parts
        self._waiting[stamp_ns] = parts
        if len(self._waiting) > self._most:
            del self._waiting[next(iter(self._waiting))]
        return None

    def clear(self) -> None:
        """Forgets all frames."""
        self._waiting.clear()
