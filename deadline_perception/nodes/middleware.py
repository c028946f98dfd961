"""Settings of the middleware that must stand before a process joins ROS."""

from __future__ import annotations

import os

from deadline_perception.core.share_folder import share_folder

VARIABLES = (
    'FASTRTPS_DEFAULT_PROFILES_FILE',
    'FASTDDS_DEFAULT_PROFILES_FILE',
)  # Fast DDS 2 (to Jazzy) and 3


def make_room_for_images() -> None:
    """Lets Fast DDS share enough memory for images, see config/fastdds.xml; a profile of the user's own stays.

    To be called before `rclpy.init`; without effect on other middleware.
    """
    file = share_folder() / 'config' / 'fastdds.xml'
    if file.is_file() and not any(name in os.environ for name in VARIABLES):
        for name in VARIABLES:
            os.environ[name] = str(file)
