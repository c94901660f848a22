"""The log: one line of JSON for each event."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from typing_extensions import override

_NAMES = ("perftrend", "uvicorn")


class JsonLines(logging.Formatter):
    """Formats a record as a JSON object in one line."""

    @override
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": " ".join(record.getMessage().split()),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def log_to(stream: TextIO) -> None:
    """Write the log of the whole process to a stream."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    for name in _NAMES:
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO)
