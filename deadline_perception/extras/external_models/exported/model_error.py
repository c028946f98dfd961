"""The error of a detector that was made elsewhere."""

from __future__ import annotations

from deadline_perception.core.errors import DeadlinePerceptionError


class ModelError(DeadlinePerceptionError):
    """A detector of the user's cannot be used, and why."""
