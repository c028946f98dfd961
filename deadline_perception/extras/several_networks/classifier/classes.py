"""What a crop can show, and how that refines the classes of the detector. Needs no torch."""

from __future__ import annotations

BACKGROUND = 'background'
ROAD_USERS = ('vehicle', 'bike', 'motorbike', 'person')
# Light classes by the lamp that shines; of one seen from behind or from the side, no lamp can be seen.
LAMPS = {'red_light': 'red', 'yellow_light': 'yellow', 'green_light': 'green'}
NO_LAMP = 'dark_light'
# Sign classes by the face that `rendering.street_furniture.sign_sprite` draws.
SIGN_FACES = {
    'speed_limit_30': '30',
    'speed_limit_50': '50',
    'speed_limit_60': '60',
    'speed_limit_80': '80',
    'speed_limit_90': '90',
    'stop': 'stop',
    'give_way': 'yield',
    'warning': 'warning',
    'no_entry': 'no_entry',
    'ahead_only': 'ahead',
    'priority_road': 'priority',
    'crossing': 'crossing',
}
OTHER_SIGN = 'other_sign'  # a sign whose meaning is none of these

REFINED = {'traffic_light': (*LAMPS, NO_LAMP), 'traffic_sign': (*SIGN_FACES, OTHER_SIGN)}
CLASS_NAMES = (BACKGROUND, *ROAD_USERS, *REFINED['traffic_light'], *REFINED['traffic_sign'])


def possible_classes(name: str) -> tuple[str, ...]:
    """The classes that an object may have which is annotated, or detected, as `name`.

    Raises:
        ValueError: no class refines that name.
    """
    if name in REFINED:
        return REFINED[name]
    if name in CLASS_NAMES:
        return (name,)
    raise ValueError(f'class is {name!r}, expected one of {", ".join((*REFINED, *CLASS_NAMES))}')
