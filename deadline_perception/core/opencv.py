"""OpenCV, whose decoders are limited before it loads: that is when it reads the limit.

The package imports OpenCV here alone, so that no import elsewhere can come first.
"""

from __future__ import annotations

import os

MOST_PX = 2**26  # of an image; it takes three bytes of memory each

os.environ.setdefault('OPENCV_IO_MAX_IMAGE_PIXELS', str(MOST_PX))
os.environ.setdefault('OPENCV_FFMPEG_LOGLEVEL', '-8')  # silent: what is wrong comes as an error

import cv2  # noqa: E402

__all__ = ['MOST_PX', 'cv2']
