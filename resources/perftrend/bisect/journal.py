"""A file of records, one line of JSON each, that survives a kill at any moment.

A record is valid once its line is complete and on the disk. A kill during a write leaves a torn last line,
which is cut off when the file is opened again. Only one process at a time may have the file open.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perftrend.errors import UsageError


class Journal:
    """The records of a file, and a way to add to them.

    :param file: created, with its folder, if it does not exist.
    :raises UsageError: if another process has it open, or a line before the last one is not a record.
    :raises OSError: if it cannot be read or written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self.records: list[dict[str, Any]] = self._read()
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record; it is on the disk when this returns.

        :raises OSError: if it cannot be written; the record is then discarded.
        """
        line = (json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")
        size = os.fstat(self._handle).st_size
        try:
            left = line
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, size)
            raise
        self.records.append(json.loads(line))
        if size == 0:
            self._sync_folder()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"{self._file}: another process works on it; wait until it has ended") from None

    def _read(self) -> list[dict[str, Any]]:
        content = self._file.read_bytes()
        records: list[dict[str, Any]] = []
        whole = 0
        for line in content.splitlines(keepends=True):
            record = _parse(line)
            if record is None:
                break
            records.append(record)
            whole += len(line)
        if content[whole:].count(b"\n") > content[whole:].endswith(b"\n"):
            raise UsageError(
                f"{self._file}: line {len(records) + 1} is not a record; remove the file to start again"
            )
        if whole < len(content):
            os.ftruncate(self._handle, whole)
        return records

    def _sync_folder(self) -> None:
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None
