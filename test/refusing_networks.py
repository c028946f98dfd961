"""Callables that a `model` parameter names, and that raise what no list of expected errors has."""

from __future__ import annotations

import sys


def exits(device='cpu'):
    sys.exit(3)


def has_no_memory(device='cpu'):
    raise MemoryError


def is_misnamed(device='cpu'):
    return device.no_such_name


def overflows(device='cpu'):
    raise OverflowError('too large')


def is_interrupted(device='cpu'):
    raise KeyboardInterrupt
