"""Archived builds from real web servers with index pages."""

from __future__ import annotations

import gzip
import random
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from perftrend.archive.fetch import (
    ArchivedFile,
    BuildFilter,
    BuildIngester,
    Claim,
    Credentials,
    DownloadLimits,
    Fetcher,
    FileCache,
    IngestStatus,
    RateLimiter,
    Readers,
    Version,
    Web,
)
from perftrend.archive.fetch.builds import Transfer
from perftrend.archive.fetch.sources import LogServer
from perftrend.archive.fetch.tree import TreeSource
from perftrend.errors import ServiceError
from perftrend.store import Store
from tests.integration.servers import apache, nginx
from tests.integration.servers.java import LackingError
from tests.integration.servers.web import PASSWORD, USER, Server, program

OUTPUT = (Path(__file__).parents[1] / "data" / "outputs" / "rf7.xml").read_bytes()
JOB = "ci of ünë/perftrend-trending-nightly-2n-clx, a name that is longer than an index page shows"
LARGE = random.Random(1).randbytes(300_000)  # noqa: S311 - the same every time


@pytest.fixture(scope="module", params=[nginx, apache], ids=["nginx", "apache"])
def server(request: pytest.FixtureRequest, require: Callable[[object, str], None]) -> Iterator[Server]:
    """Run a server for the module, with three builds: packed, plain, and without an output."""
    try:
        program(request.param.PROGRAM)
    except LackingError as lacking:
        require(condition=False, reason=str(lacking))
    # Not below the folders of the tests, which nobody else may enter.
    with TemporaryDirectory() as folder, request.param.running(Path(folder)) as server:
        server.archive(f"{JOB}/3/archives/output.xml.gz", gzip.compress(OUTPUT))
        server.archive(f"{JOB}/2/output.xml", OUTPUT)
        server.archive(f"{JOB}/1/console.log", b"Finished: ABORTED")
        server.archive("large", LARGE)
        yield server


@pytest.fixture(autouse=True)
def without_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a person's ~/.netrc and proxy out of it."""
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setenv("NO_PROXY", "*")


@contextmanager
def web(**options: Any) -> Iterator[Web]:
    with Web(RateLimiter(1e6), timeout_s=60, first_pause_s=0.1, **options) as opened:
        yield opened


@contextmanager
def opened(server: Server, path: str = "", **options: Any) -> Iterator[TreeSource]:
    with web(**options) as web_:
        yield TreeSource(LogServer(f"{server.url}/{path}", web_))


def fetcher(source: Any, folder: Path) -> Fetcher:
    return Fetcher(source, FileCache(folder / "cache"), RateLimiter(1e6), DownloadLimits(first_pause_s=0.1))


def test_builds_are_taken_from_its_index_pages(server: Server, tmp_path: Path) -> None:
    location = str(tmp_path / "store.sqlite")
    Store.open(location).close()
    with opened(server) as source, Readers(location, 0, 10**9) as readers:
        taker = BuildIngester(source, fetcher(source, tmp_path), readers)
        builds = list(source.builds(BuildFilter()))
        taken = [
            taker.ingest(build, Claim(build.job, build.number, build.location, testbed="2n-clx"))
            for build in builds
        ]

    assert [3, 2, 1] == [build.number for build in builds]
    assert {JOB.rpartition("/")[2]} == {build.job for build in builds}
    assert [IngestStatus.NEW, IngestStatus.NEW, IngestStatus.MISSING] == [one.fate for one in taken], taken
    with Store.open(location) as store:
        first, second = (
            [(result.key.parameters, result.samples) for result in store.results(run)]
            for run in store.runs("2n-clx")
        )
    assert first
    assert first == second


def test_index_tells_names_dates_and_sizes_that_are_exact(server: Server) -> None:
    with opened(server, f"{JOB}/2/") as source:
        [build] = source.builds(BuildFilter())
        [file] = source.files(build)

    assert "output.xml" == file.name
    assert (len(OUTPUT) if server.tells_sizes else None) == file.version.size
    assert file.modified


def test_file_that_is_sent_as_packed_stays_packed(server: Server, tmp_path: Path) -> None:
    with opened(server, "encoded/") as source:
        build = next(source.builds(BuildFilter()))
        [file] = source.files(build)
        fetched = fetcher(source, tmp_path).fetch(file)

    assert OUTPUT == gzip.decompress(fetched.path.read_bytes())


class Interrupting:
    """A source whose server loses its connections after the first bytes of a file.

    :param cut: loses them.
    """

    def __init__(self, source: TreeSource, cut: Callable[[], None]) -> None:
        self._source = source
        self._cut = cut
        self.before = 0
        """Bytes that were read before."""

    @contextmanager
    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version | None = None
    ) -> Generator[Transfer, None, None]:
        with self._source.open(file, offset=offset, version=version or Version()) as transfer:
            yield replace(transfer, read=lambda amount: self._read(transfer, amount))

    def _read(self, transfer: Transfer, amount: int) -> bytes:
        read = transfer.read(min(amount, 10_000))
        if not self.before:
            self.before = len(read)
            self._cut()
        return read


def test_transfer_goes_on_where_the_connection_was_cut(server: Server, tmp_path: Path) -> None:
    with opened(server) as source:
        interrupting = Interrupting(source, server.cut_connections)
        fetched = fetcher(interrupting, tmp_path).fetch(ArchivedFile(f"{server.url}/slow/large", "large"))

    assert LARGE == fetched.path.read_bytes()
    assert len(LARGE) == fetched.transferred
    [rest] = server.asked("/slow/large")
    assert 206 == rest.status
    assert interrupting.before <= len(LARGE) - rest.sent < len(LARGE)
    assert f"bytes={len(LARGE) - rest.sent}-" == rest.range


def test_file_that_changes_while_the_connection_is_cut_is_fetched_anew(
    server: Server, tmp_path: Path
) -> None:
    server.archive("changing", LARGE)
    changed = LARGE[::-1] + b"more"

    def change_and_cut() -> None:
        server.archive("changing", changed, written_s=1_700_000_100)
        server.cut_connections()

    with opened(server) as source:
        interrupting = Interrupting(source, change_and_cut)
        file = ArchivedFile(f"{server.url}/slow/changing", "changing")
        fetched = fetcher(interrupting, tmp_path).fetch(file)

    assert changed == fetched.path.read_bytes()
    assert [200] == [one.status for one in server.asked("/slow/changing")]


def test_file_that_has_not_changed_is_not_sent_again(server: Server, tmp_path: Path) -> None:
    server.archive("same", b"<robot/>")
    file = ArchivedFile(f"{server.url}/same", "same")
    with opened(server) as source:
        first, second = (fetcher(source, tmp_path).fetch(file) for _ in range(2))

    assert (8, 0, first.path) == (first.transferred, second.transferred, second.path)
    assert [200, 304] == [one.status for one in server.asked("/same")]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere", r"/nowhere: the file does not exist \(404\)"),
        ("forbidden/x", r"/forbidden/x: the server refuses it \(403\)"),
        ("locked/large", r"/locked/large: the server refuses it \(401\)"),
    ],
)
def test_what_the_server_refuses_is_told_at_once(
    server: Server, tmp_path: Path, path: str, message: str
) -> None:
    with opened(server) as source, pytest.raises(ServiceError, match=message):
        fetcher(source, tmp_path).fetch(ArchivedFile(f"{server.url}/{path}", path))

    assert 1 == len(server.asked(f"/{path}"))


def test_user_and_password_open_what_is_locked(server: Server, tmp_path: Path) -> None:
    file = ArchivedFile(f"{server.url}/locked/large", "large")
    with opened(server, credentials={server.url: Credentials(USER, PASSWORD)}) as source:
        assert LARGE == fetcher(source, tmp_path).fetch(file).path.read_bytes()


def test_wrong_password_is_refused_and_not_told(server: Server) -> None:
    wrong = {server.url: Credentials(USER, "guessed")}
    with (
        opened(server, "locked/", credentials=wrong) as source,
        pytest.raises(ServiceError, match="401") as caught,
    ):
        list(source.builds(BuildFilter()))

    assert "guessed" not in str(caught.value)
