"""The log of the process, which tests of the middleware change."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def original_log() -> Iterator[None]:
    """Restore where and what the process logs."""
    loggers = [logging.getLogger(name) for name in ("perftrend", "uvicorn")]
    before = [(each, each.handlers[:], each.propagate, each.level) for each in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)
