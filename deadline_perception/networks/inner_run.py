"""A run that is another one's, as far as it goes."""

from __future__ import annotations

from deadline_perception.core.detections import Detections
from deadline_perception.core.execution_path import ExecutionPath, PathSpace
from deadline_perception.engines.segment_run import SegmentRun


class InnerRun(SegmentRun):
    """A run whose segments are those of another one, `inner`; None until it is known which."""

    def __init__(
        self,
        space: PathSpace,
        path: ExecutionPath,
        device: str,
        inner: SegmentRun | None,
    ) -> None:
        super().__init__(space, path, device)
        self._inner = inner

    def compute(self, name: str, key: str) -> None:
        """Runs the other's segment of that name; those that its path leaves out before it take no time."""
        inner = self._inner
        assert inner is not None
        while True:
            passed = inner.space.segments[inner.segment].name
            inner.run_segment()
            if passed == name:
                return

    def result(self) -> Detections:
        """See `SegmentRun`."""
        self.check_finished()
        assert self._inner is not None
        return self._inner.result()
