"""The messages of a bag, read ahead on a thread of its own, and which of its topics is the camera."""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from deadline_perception.extras.data.bag_file import BagError, BagFile, BagTopic
from deadline_perception.nodes.node_table import NODES, OPTIONAL_NODES

# What running nodes publish themselves.
EXCLUDED = (
    '/clock',
    '/rosout',
    '/parameter_events',
    '/diagnostics',
    *(f'*/{entry.name}/*' for entry in NODES + OPTIONAL_NODES),
)
_READ_AHEAD = 32
_COMPRESSED = '/compressed'
# One channel, or 16 bits and more for a distance: grey, infrared and depth images.
_NOT_COLOUR = re.compile(r'mono|\d+[SUF]C1\b|.*compressedDepth', re.IGNORECASE)


def open_bag(name: str) -> BagFile:
    """The bag of this name, which may begin with `~`.

    Raises:
        FileNotFoundError: there is none.
        BagError: the name is empty, or nothing of the bag can be read.
    """
    if not name:
        raise BagError(
            'bag is empty, expected the name of a bag folder or of an .mcap or .db3 file'
        )
    return BagFile(Path(name).expanduser())


def read_ahead(bag: BagFile, names: set[str]) -> Iterator[tuple[str, str, int, bytes]]:
    """The messages of these topics as `BagFile.messages` gives them.

    Raises:
        BagError: the bag is damaged further on; the messages before that have been given.
    """
    messages = bag.messages(names)
    with ThreadPoolExecutor(1, 'bag reader') as reader:
        ahead = deque(reader.submit(next, messages, None) for _ in range(_READ_AHEAD))
        try:
            while (entry := ahead.popleft().result()) is not None:
                ahead.append(reader.submit(next, messages, None))
                yield entry
        finally:
            for waiting in ahead:
                waiting.cancel()
            reader.submit(messages.close)


def is_excluded(topic: str) -> bool:
    """Whether the running nodes publish a topic themselves."""
    return any(fnmatch.fnmatch(topic, pattern) for pattern in EXCLUDED)


def choose_camera(bag: BagFile, camera: str = '') -> BagTopic | None:
    """The image topic that the detector is to see; None for a bag without images.

    Args:
        bag: what is played.
        camera: its topic, with or without `/compressed`; empty for the only one, or else the only one in colour. Of a
            camera that was recorded both raw and compressed, the raw images.

    Raises:
        BagError: there is no such topic, or more than one that it could be.
    """
    images = sorted(
        (
            topic
            for topic in bag.topics
            if topic.is_image and topic.count and not is_excluded(topic.name)
        ),
        key=lambda topic: topic.name,
    )
    if camera:
        wanted = [
            topic
            for name in (camera, camera + _COMPRESSED)
            for topic in images
            if topic.name == name
        ]
        if not wanted:
            raise BagError(
                f'bag {bag.file} has no camera {camera}, expected one of its image topics: '
                f'{", ".join(topic.name for topic in images) or "none"}'
            )
        return wanted[0]
    names = {topic.name for topic in images}
    images = [
        topic
        for topic in images
        if topic.name.removesuffix(_COMPRESSED) not in names - {topic.name}
    ]
    if len(images) < 2:
        return images[0] if images else None
    encodings = {topic: _encoding(bag, topic) for topic in images}
    coloured = [topic for topic, encoding in encodings.items() if not _NOT_COLOUR.match(encoding)]
    if len(coloured) != 1:
        found = ', '.join(f'{topic.name} ({encoding})' for topic, encoding in encodings.items())
        raise BagError(
            f'bag {bag.file} holds {len(images)} cameras, expected the argument camera to name one: {found}'
        )
    return coloured[0]


def _encoding(bag: BagFile, topic: BagTopic) -> str:
    _, msgtype, _, raw = next(bag.messages([topic.name]))
    message: Any = bag.parse(raw, msgtype)
    return message.format if topic.is_compressed else message.encoding
