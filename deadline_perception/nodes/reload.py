"""The service `~/reload` of a node: what its parameters name now takes the place of the running network.

The new network is loaded and warmed beside the running one, on a thread of its own, and takes its place between two
frames. The answer is sent when it has done so, or cannot: then it says why, and the running network goes on. The one
before is given back piece by piece in the gaps between frames: at once, it would hold them up for a second. The thread
keeps the ordinary priority: frames go first, and one of a lower priority could be kept from the processor while it
holds Python's lock.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager

from rclpy.node import Node
from std_srvs.srv import Trigger

from deadline_perception.deadline_detector import DeadlineDetector
from deadline_perception.nodes.managed_node import cause
from deadline_perception.runtime.executor import Executor
from deadline_perception.runtime.loading import LoadedTask, NetworkOptions, SetupError, rescale

GAP_S = 0.2  # longest wait for the gap after a frame
_Replaced = tuple[DeadlineDetector, LoadedTask]
_SHARED_TURN_S = 1e-4
NEXT_FRAME_S = (
    5.0  # without a frame for so long, the answer is that the next one will run on the new network
)


@contextmanager
def short_turns() -> Iterator[None]:
    """Has threads of Python leave the interpreter to each other after 0.1 ms instead of 5, while one works beside
    frames.

    A frame lets go of the interpreter at every kernel, and waits a turn of the other thread each time, whatever its
    priority: some ten kernels would add 50 ms.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(before, _SHARED_TURN_S))
    try:
        yield
    finally:
        sys.setswitchinterval(before)


class ReloadService:
    """Offers the service.

    Args:
        node: whose service it is.
        detector: gives the one that runs or is ready to, None where there is none.
        options: what is to take the place of a running network.
        replaced: is told what has taken that place.
    """

    def __init__(
        self,
        node: Node,
        detector: Callable[[], DeadlineDetector | None],
        options: Callable[[LoadedTask], NetworkOptions],
        replaced: Callable[[LoadedTask], None],
    ) -> None:
        self._node, self._detector, self._options, self._replaced = (
            node,
            detector,
            options,
            replaced,
        )
        self._thread: Executor | None = None
        self._work: Future[None] | None = None
        service = node.create_service(Trigger, '~/reload', lambda request, response: response)
        # An executor sends what the callback returns at once, and would wait in a loop for a coroutine. Here it only
        # leaves the answer to the thread that loads. Same in rclpy from Humble to Kilted.
        send, service.send_response = service.send_response, self._on_request
        self._send: Callable[[Trigger.Response, object], None] = send

    def _on_request(self, response: Trigger.Response, header: object) -> None:
        self.begin(lambda answer: self._send(answer, header))

    def begin(self, answer: Callable[[Trigger.Response], None]) -> bool:
        """What the service does; `answer` gets its response, from the thread that loads. Returns whether it began."""
        response = Trigger.Response()
        if self._work is not None and not self._work.done():
            response.message = (
                'not reloaded: another network is being loaded, expected one request at a time'
            )
            answer(response)
            return False
        # One thread for all: each new one may take another arena of glibc's, in which what was freed stays allocated.
        self._thread, replaced = self._thread or Executor('reload'), []
        self._work = self._thread.submit(lambda: self._reload(response, answer, replaced))
        self._thread.submit(lambda: self._let_go(replaced))
        return True

    def rescale(self, running: LoadedTask) -> None:
        """Puts the times of its first frames in the place of rough ones, between two frames; see `loading.rescale`."""
        detector = self._detector()
        if detector is None or detector.loaded is not running:
            return
        with short_turns():
            loaded = rescale(running)
        try:
            detector.replace(running, loaded)
        except SetupError:  # another network has taken its place meanwhile
            return
        self._node.get_logger().info(
            f'{running.options.model} goes by the times that its first frames took'
        )

    def _reload(
        self,
        response: Trigger.Response,
        answer: Callable[[Trigger.Response], None],
        replaced: list[_Replaced],
    ) -> None:
        try:
            response.message = self._take_its_place(replaced)
            response.success = True
            self._node.get_logger().info(response.message)
        except (
            BaseException
        ) as error:  # whatever a network does as it is loaded, the client gets its answer
            response.message = f'not reloaded, and nothing changed: {cause(error)}'
            self._node.get_logger().error(response.message)
        answer(response)
        if not response.success:
            gc.collect()  # what was loaded in vain; what runs was frozen, so that this looks through little else

    def _let_go(self, replaced: list[_Replaced]) -> None:
        """Gives back first what loading took beyond what it left, some 300 MB, then the network that was replaced."""
        detector = self._detector()
        if detector is not None:
            detector.renew_memory()
        for detector, loaded in replaced:
            while loaded.task.network.engine.let_go():
                detector.wait_for_gap(GAP_S)
            detector.renew_memory()

    def _take_its_place(self, replaced: list[_Replaced]) -> str:
        detector = self._detector()
        if detector is None:
            raise SetupError('the node is not configured, expected it to be inactive or active')
        running = detector.loaded
        with short_turns():
            loaded = detector.load_replacement(self._options(running))
        for notice in (*loaded.notices, *loaded.degraded):
            self._node.get_logger().warning(notice)
        swapped = detector.replace(running, loaded)
        self._replaced(loaded)
        when = ''
        if swapped is None:
            when = ' once the node is active'
        elif not swapped.wait(NEXT_FRAME_S):
            when = ' with the next image'
        if not when:
            replaced.append((detector, running))  # no frame runs on it any more
        return f'reloaded {loaded.options.model}: it runs{when}'
