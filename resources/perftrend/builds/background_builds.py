"""Building of the commits that will probably be needed next, while other work is done.

A requested build takes precedence: builds of other commits are ended. Whether a
commit was built ahead affects only the time that the request waits for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Self

from perftrend.builds.builder import Builds
from perftrend.builds.cache import BuiltCommit
from perftrend.builds.cancellation import Stop, StoppedError
from perftrend.errors import PerftrendError


class BackgroundBuilds:
    """Builds some commits before they are requested; not thread-safe.

    Closing it ends all its builds.

    :param most: how many commits are built ahead, at the same time; 0: none.
    """

    def __init__(self, product: Builds, most: int) -> None:
        self._product = product
        self._most = most
        self._threads = ThreadPoolExecutor(max_workers=max(most, 1), thread_name_prefix="build ahead")
        self._begun: dict[str, tuple[Future[None], Stop]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_all_but(())
        self._threads.shutdown()

    def expect(self, commits: Iterable[str]) -> None:
        """Build these in the background, the most probable first, instead of those expected before."""
        expected = list(islice(commits, self._most))
        self._end_all_but(expected)
        for commit in expected:
            if commit not in self._begun:
                stop = Stop()
                self._begun[commit] = self._threads.submit(self._build_in_background, commit, stop), stop

    def build(self, commit: str) -> BuiltCommit:
        """Build a commit like :meth:`Builds.build`; wait for it if it is being built ahead."""
        if not self._product.is_cached(commit):
            self._end_all_but([commit])
        if commit in self._begun:
            self._begun[commit][0].result()
        return self._product.build(commit)

    def _build_in_background(self, commit: str, stop: Stop) -> None:
        with stop, suppress(StoppedError, PerftrendError, OSError):
            # The request for this commit raises the same error.
            self._product.until(stop).build(commit)

    def _end_all_but(self, commits: Collection[str]) -> None:
        for commit in self._begun.keys() - set(commits):
            _, stop = self._begun.pop(commit)
            stop.set()
