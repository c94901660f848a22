"""Building what will probably be needed next, while something else is done.

What is asked for goes first: builds that turn out not to be the one that is needed are ended. Whether a
commit was built ahead changes nothing but the time that is waited for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from types import TracebackType
from typing import Self

from perftrend.builds.builder import Builds
from perftrend.builds.cache import Built
from perftrend.builds.stopping import Stop, StoppedError
from perftrend.errors import PerftrendError


class Ahead:
    """Builds some commits before they are asked for; it is used by one thread.

    When it is closed nothing is built any longer.

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
        """Build these beside, the most probable first, and nothing that was expected before."""
        expected = list(islice(commits, self._most))
        self._end_all_but(expected)
        for commit in expected:
            if commit not in self._begun:
                stop = Stop()
                self._begun[commit] = self._threads.submit(self._build_beside, commit, stop), stop

    def build(self, commit: str) -> Built:
        """Build a commit as :meth:`Builds.build` does; one that is being built ahead is waited for."""
        if not self._product.kept(commit):
            self._end_all_but([commit])
        if commit in self._begun:
            self._begun[commit][0].result()
        return self._product.build(commit)

    def _build_beside(self, commit: str, stop: Stop) -> None:
        with stop, suppress(StoppedError, PerftrendError, OSError):
            # Who asks for this commit meets the same error.
            self._product.until(stop).build(commit)

    def _end_all_but(self, commits: Collection[str]) -> None:
        for commit in self._begun.keys() - set(commits):
            _, stop = self._begun.pop(commit)
            stop.set()
