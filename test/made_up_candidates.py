from collections.abc import Iterable

from deadline_perception.extras.external_models.model_set.pruning import Candidate


def names(found: Iterable[Candidate]) -> list[str]:
    return [candidate.name for candidate in found]


def models(*rows: tuple[str, float, float]) -> list[Candidate]:
    return [Candidate(*row) for row in rows]
