"""What each node may publish, subscribe to and serve, as a policy file of SROS2.

`python -m deadline_perception.nodes bringup --policy [ARGUMENTS]` prints it, for the names that the arguments give.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from deadline_perception.nodes.frame_messages import RESULT_KINDS
from deadline_perception.nodes.node_table import (
    BringupError,
    NodeEntry,
    node_parameters,
    node_remaps,
)

_FORMAT, ENCLAVE = (
    '0.2.0',
    '/',
)  # the latter is what nodes are in that are started without --enclave


@dataclass(frozen=True)
class Access:
    """Topics and services of a node as it calls them itself, beside those of every node."""

    publishes: tuple[str, ...]
    subscribes: tuple[str, ...]
    serves: tuple[str, ...] = ()


_STATE = 'contention_monitor/state'
_RESULTS = tuple(kind.topic for kind in RESULT_KINDS.values())
ACCESS = {
    'vehicle_speed': Access(('~/speed',), ('odom', 'vehicle/speed')),
    'time_budget': Access(('~/budget',), ('vehicle_speed/speed',)),
    'contention_monitor': Access(('~/state',), ('detector/latency', 'detector/late')),
    'detector': Access(
        (*_RESULTS, '~/path', '~/latency', '~/late', '~/label_info'),
        ('image', 'time_budget/budget', _STATE),
        ('~/reload',),
    ),
    'path_visualizer': Access(
        ('~/image', '~/markers'),
        ('image', 'camera_info', 'detector/detections', 'detector/latency', _STATE),
    ),
    'crop_classifier': Access(
        ('~/detections',), ('image', 'detector/detections', 'time_budget/budget', _STATE)
    ),
}
EVERY = Access(
    ('/rosout', '/parameter_events', '/diagnostics'),
    ('/clock', '/parameter_events'),
    tuple(
        f'~/{name}'
        for name in (
            'describe_parameters',
            'get_parameter_types',
            'get_parameters',
            'get_type_description',
            'list_parameters',
            'set_parameters',
            'set_parameters_atomically',
        )
    ),
)
LIFECYCLE = Access(
    ('~/transition_event',),
    (),
    tuple(
        f'~/{name}'
        for name in (
            'change_state',
            'get_available_states',
            'get_available_transitions',
            'get_state',
            'get_transition_graph',
        )
    ),
)


def access_of(entry: NodeEntry, values: dict[str, object]) -> Access:
    """The same by full names, with every node's own.

    Raises:
        BringupError: the node's topics follow its task file.
    """
    if entry.name not in ACCESS:
        raise BringupError(
            f'topics of {entry.name} follow its task file, expected no --tasks beside --policy'
        )
    remaps = dict(node_remaps(entry, values))
    remaps['camera_info'] = node_parameters(entry, values).get('camera_info_topic') or 'camera_info'
    parts = (ACCESS[entry.name], EVERY, *((LIFECYCLE,) if entry.lifecycle else ()))
    namespace = str(values['namespace']).strip('/')
    space = f'/{namespace}' if namespace else ''

    def full(name: str) -> str:
        outside = str(remaps.get(name, name))
        if outside.startswith('~/'):
            return f'{space}/{entry.name}/{outside[2:]}'
        return outside if outside.startswith('/') else f'{space}/{outside}'

    heard = {full(name): None for part in parts for name in part.subscribes}
    if 'image' in ACCESS[entry.name].subscribes:
        heard[f'{full("image")}/compressed'] = None
    return Access(
        tuple(full(name) for part in parts for name in part.publishes),
        tuple(heard),
        tuple(full(name) for part in parts for name in part.serves),
    )


def policy_text(entries: Sequence[NodeEntry], values: dict[str, object]) -> str:
    """The policy file of some nodes, all in one enclave; `values` are those of the arguments by name.

    Raises:
        BringupError: see `access_of`.
    """
    policy = ElementTree.Element('policy', version=_FORMAT)
    enclave = ElementTree.SubElement(
        ElementTree.SubElement(policy, 'enclaves'), 'enclave', path=ENCLAVE
    )
    profiles = ElementTree.SubElement(enclave, 'profiles')
    for entry in entries:
        access = access_of(entry, values)
        profile = ElementTree.SubElement(
            profiles, 'profile', node=entry.name, ns='/' + str(values['namespace']).strip('/')
        )
        for group, word, right, names in (
            ('topics', 'topic', 'publish', access.publishes),
            ('topics', 'topic', 'subscribe', access.subscribes),
            ('services', 'service', 'reply', access.serves),
        ):
            allowed = ElementTree.SubElement(profile, group, {right: 'ALLOW'})
            for name in names:
                ElementTree.SubElement(allowed, word).text = name
    ElementTree.indent(policy)
    return ElementTree.tostring(policy, encoding='unicode', xml_declaration=True) + '\n'
