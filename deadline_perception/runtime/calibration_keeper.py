"""Writes what the calibration of a task has learnt to its file, on a thread that may wait for the disk."""
from __future__ import annotations

from collections.abc import Callable

from deadline_perception.latency.calibration import BoundCalibrator, CalibrationFile, ForeignFile
from deadline_perception.runtime.executor import Executor

FRAMES = 200  # a process that is killed loses what the calibration learnt from at most so many


class CalibrationKeeper:
    """See the module.

    Args:
        failed: is told, in a sentence, that the file cannot be written; the next frames are served.
    """

    def __init__(self, failed: Callable[[str], None]) -> None:
        self._failed, self._frames = failed, 0
        self._thread = Executor('calibration')

    def end_frame(self, file: CalibrationFile, calibrator: BoundCalibrator) -> None:
        """Called after each frame; keeps the state after some."""
        self._frames += 1
        if self._frames % FRAMES == 0:
            self.keep(file, calibrator)

    def keep(self, file: CalibrationFile, calibrator: BoundCalibrator) -> None:
        """Keeps the state as it is now; does not wait."""
        state = calibrator.state()

        def write() -> None:
            try:
                file.save(state)
            except (OSError, ForeignFile) as error:
                self._failed(f'calibration_file cannot be written: {error}')

        self._thread.submit(write)

    @property
    def is_alive(self) -> bool:
        """The thread has not ended."""
        return not self._thread.fault

    def stop(self, timeout_s: float) -> None:
        """Ends the thread once everything is written; waits so long."""
        self._thread.close(timeout_s)
