"""What the tests of prepared segments leave as it was."""

import logging

import pytest


@pytest.fixture(scope='session', autouse=True)
def later_warnings_are_logged():
    """A conversion that failed once left the root logger at ERROR, and nobody read later warnings."""
    level = logging.getLogger().level
    yield
    assert logging.getLogger().level == level
