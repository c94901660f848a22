"""Builds of a source that are in the store already, so that they need not be fetched again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

from perftrend.archive.fetch.builds import ArchivedBuild
from perftrend.store import Store


class KnownBuilds:
    """Distinguishes builds that were read from builds that are new or have changed since.

    :param opened: opens the store while it is used.
    """

    def __init__(self, opened: Callable[[], AbstractContextManager[Store]]) -> None:
        self._opened = opened
        self._read: dict[str, dict[str, str]] = {}
        self._learned: dict[str, str] = {}

    def has(self, build: ArchivedBuild) -> bool:
        """Whether a build was read, in the version that its source lists now.

        If one of the two versions is unknown, they are assumed to be the same.
        """
        if build.job not in self._read:
            with self._opened() as store:
                self._read[build.job] = store.archives.versions(build.job)
        read = self._read[build.job].get(build.location)
        if read == "" and build.version:
            self._learned[build.location] = build.version
        return read is not None and (not read or not build.version or read == build.version)

    def note_versions(self) -> None:
        """Store the versions that the store did not know."""
        if self._learned:
            with self._opened() as store:
                store.archives.note_versions(self._learned)
            self._learned = {}
