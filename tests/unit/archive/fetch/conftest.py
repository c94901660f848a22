"""What the tests of fetching lean on: a log server in a thread, and a fetcher that does not wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.archive.fetch import Access, DownloadLimits, Fetcher, FileCache, RateLimiter, Web
from perftrend.archive.fetch.sources import LogServer
from perftrend.archive.fetch.tree import TreeSource
from tests.doubles.archive_server import Behaviour, Server


@pytest.fixture(autouse=True)
def without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a person's ~/.netrc and proxy out of it."""
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "*")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    folder = tmp_path / "served"
    folder.mkdir()
    with Server(Behaviour(folder)) as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


@pytest.fixture
def pace() -> RateLimiter:
    return RateLimiter(1e6)


@pytest.fixture
def web(pace: RateLimiter) -> Iterator[Web]:
    with Web(pace, timeout_s=5, first_pause_s=0.001) as opened:
        yield opened


@pytest.fixture
def access(pace: RateLimiter) -> Access:
    """Return access without a Jenkins."""

    def none(url: str) -> object:
        raise AssertionError(url)

    return Access(pace, none, {}, timeout_s=5, attempts=2, report=lambda _: None)  # type: ignore[arg-type]


MakeFetcher = Callable[..., Fetcher]


@pytest.fixture
def fetcher(server: Server, web: Web, pace: RateLimiter, tmp_path: Path) -> MakeFetcher:
    def make(**limits: float) -> Fetcher:
        chosen = DownloadLimits(**{"first_pause_s": 0.001, "attempts": 3, **limits})  # type: ignore[arg-type]
        return Fetcher(TreeSource(LogServer(server.url, web)), FileCache(tmp_path / "cache"), pace, chosen)

    return make
