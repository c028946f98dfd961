from collections.abc import Iterable

from hypothesis import strategies as st

from deadline_perception.extras.external_models.model_set.pruning import Candidate


def names(found: Iterable[Candidate]) -> list[str]:
    return [candidate.name for candidate in found]


def models(*rows: tuple[str, float, float]) -> list[Candidate]:
    return [Candidate(*row) for row in rows]


candidates = st.lists(st.tuples(st.floats(0.1, 1e3), st.floats(0.0, 1.0)), max_size=12).map(
    lambda rows: models(*((str(number), *row) for number, row in enumerate(rows)))
)
