"""A service: who connects and sends an image file is sent what is in it, as JSON.

.venv/bin/python examples/asyncio_service.py [PORT] [MODEL]        then: nc -N localhost 8000 < photo.jpg
"""

import asyncio
import contextlib
import sys

import cv2
import numpy as np

from deadline_perception import DeadlineDetector


async def main(port: int = 8000, model: str = 'street', budget_ms: float = 200.0) -> None:
    with DeadlineDetector(model) as detector:

        async def reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                image_bgr = cv2.imdecode(np.frombuffer(await reader.read(), np.uint8), 1)
                answer = await detector.adetect(image_bgr, budget_ms)
                writer.write(answer.to_json().encode())

        async with await asyncio.start_server(reply, 'localhost', port) as server:
            await server.serve_forever()


if __name__ == '__main__':
    asyncio.run(main(*map(int, sys.argv[1:2]), *sys.argv[2:]))
