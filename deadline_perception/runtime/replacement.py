"""A network that takes the place of a running one between two frames: new weights of the same shape. Free of ROS."""

from __future__ import annotations

from deadline_perception.core.errors import DeadlinePerceptionError
from deadline_perception.engines.eager import Eager


class ReplacementError(DeadlinePerceptionError):
    """A network that cannot take the place of the running one."""


def check_replacement(network, running) -> None:
    """Makes sure that whoever runs, forecasts or hears a network needs to know nothing of the change.

    Args:
        network: new; see `engines/segment_run.py`.
        running: old.

    Raises:
        ReplacementError: results, classes, paths, shape or engine differ.
    """
    for what, found, expected in (
        ('results', network.result_type.__name__, running.result_type.__name__),
        ('classes', ', '.join(network.class_names), ', '.join(running.class_names)),
        ('operators', _operators(network), _operators(running)),
        ('shape', _shape(network), _shape(running)),
    ):
        if found != expected:
            raise ReplacementError(
                f'its {what}: {found}; expected those of the running network: {expected}. For '
                f'another network configure the node anew'
            )
    if network.path_space != running.path_space:
        raise ReplacementError(
            'its segments differ from those of the running network. For another network configure '
            'the node anew'
        )
    # An eager engine in the place of one that was not ready is to be replaced by it; all times are then loaded anew.
    stands_in = type(running.engine) is Eager and bool(running.engine.notice)
    if network.engine.identity != running.engine.identity and not stands_in:
        raise ReplacementError(
            f'it would run on {network.engine.identity} and not, like the running network, on '
            f'{running.engine.identity}, so that no measured time held'
            f'{": " * bool(network.engine.notice)}{network.engine.notice}'
        )


def _operators(network) -> str:
    return (
        '; '.join(
            f'{operator.name} of {", ".join(map(str, operator.settings))}'
            for operator in network.path_space.operators
        )
        or 'none'
    )


def _shape(network) -> str:
    return f'{network.config_name} {network.network_hash} on {network.input_size[0]} x {network.input_size[1]} px'
