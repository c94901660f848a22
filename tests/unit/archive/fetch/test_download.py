"""A file comes whole, from a sound server or a bad one, or it is refused by name."""

from __future__ import annotations

import hashlib
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.archive.fetch import ArchivedFile, Fetcher, FileCache
from perftrend.archive.fetch.builds import MissingError, UnpackingError
from perftrend.errors import ServiceError
from tests.doubles.archive_server import Server

CONTENT = random.Random(1).randbytes(100_000)  # noqa: S311 - the same every time


@pytest.fixture(autouse=True)
def served(server: Server) -> None:
    (server.behaviour.folder / "file").write_bytes(CONTENT)


def at(server: Server, path: str, **more: str) -> ArchivedFile:
    return ArchivedFile(f"{server.url}{path}", path, **more)  # type: ignore[arg-type]


def test_file_comes_whole_and_only_once(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    first = fetcher().fetch(at(server, "file"))
    second = fetcher().fetch(at(server, "file"))

    assert CONTENT == first.path.read_bytes() == second.path.read_bytes()
    assert (len(CONTENT), 0) == (first.transferred, second.transferred)
    assert [200, 304] == [request["status"] for request in server.requests]


@pytest.mark.parametrize("fault", ["twice-500", "busy", "elsewhere", "wrong-md5", "reset-without-ranges"])
def test_server_that_recovers_gives_the_file(
    fault: str, server: Server, fetcher: Callable[..., Fetcher]
) -> None:
    assert CONTENT == fetcher().fetch(at(server, f"fault/{fault}/file")).path.read_bytes()


def test_broken_transfers_go_on_where_they_stopped(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    """The server breaks off after 20,000 bytes each time: no byte is asked for twice."""
    fetched = fetcher().fetch(at(server, "fault/reset/file"))

    assert CONTENT == fetched.path.read_bytes()
    assert len(CONTENT) == fetched.transferred
    assert ["", *(f"bytes={part}0000-" for part in (2, 4, 6, 8))] == [
        request["range"] for request in server.requests
    ]


def test_file_that_changed_meanwhile_is_fetched_anew(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    """Half of one version and half of another would be a file that never was."""
    assert CONTENT == fetcher().fetch(at(server, "fault/changed/file")).path.read_bytes()
    assert 20_000 < sum(request["sent"] for request in server.requests)


@pytest.mark.parametrize(
    ("fault", "error", "reason"),
    [
        ("always-500", ServiceError, "the server failed \\(500\\)"),
        ("busy-for-long", ServiceError, "requests a pause of 86400 s"),
        ("unauthorized", ServiceError, "refuses it \\(401\\); give user and token"),
        ("forbidden", ServiceError, "refuses it \\(403\\)"),
        ("always-reset", ServiceError, "broke off"),
        ("short", ServiceError, "broke off|ended after"),
        ("circle", ServiceError, "redirects in a circle"),
        ("longer-and-longer", ServiceError, "redirects in a circle"),
        ("to-file", ServiceError, "neither http nor https"),
        ("always-wrong-md5", ServiceError, "another md5 than the server reports"),
        ("garbage", ServiceError, "does not answer"),
        ("login-page", UnpackingError, "page of HTML; is a login needed"),
        ("empty", UnpackingError, "is empty"),
    ],
)
def test_bad_server_is_told_by_name_and_leaves_nothing(
    fault: str, error: type[Exception], reason: str, server: Server, fetcher: Callable[..., Fetcher]
) -> None:
    with pytest.raises(error, match=f"fault/{fault}/file: .*({reason})"):
        fetcher().fetch(at(server, f"fault/{fault}/file"))

    assert [] == sorted(fetcher()._cache._folder.glob("objects/*/*"))


def test_endless_file_is_refused_where_it_grows_too_large(
    server: Server, fetcher: Callable[..., Fetcher]
) -> None:
    with pytest.raises(UnpackingError, match="larger than 200000 bytes"):
        fetcher(maximum_bytes=200_000).fetch(at(server, "fault/endless/file"))


def test_slow_drip_is_given_up(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    with pytest.raises(ServiceError, match="arrives at less than 1000 bytes a second"):
        fetcher(patience_s=0.1).fetch(at(server, "fault/drip/file"))


def test_no_file_takes_longer_than_its_deadline(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    with pytest.raises(ServiceError, match="did not arrive within 0 s"):
        fetcher(deadline_s=0.1).fetch(at(server, "fault/drip/file"))


def test_missing_file_is_told_apart(server: Server, fetcher: Callable[..., Fetcher], tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"nowhere: the file does not exist \(404\)"):
        fetcher().fetch(at(server, "nowhere"))

    assert not list((tmp_path / "cache" / "partial").iterdir())


def test_checksum_beside_the_file_counts(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    told = server.behaviour.folder / "file.sha256"
    told.write_text(f"{hashlib.sha256(CONTENT).hexdigest()}  file\n")
    file = at(server, "file", checksum_location=f"{server.url}file.sha256")

    assert CONTENT == fetcher().fetch(file).path.read_bytes()

    told.write_text(f"{'0' * 64}  file\n")
    with pytest.raises(ServiceError, match="another sha256"):
        fetcher().fetch(at(server, "./file", checksum_location=f"{server.url}file.sha256"))


def test_gone_from_the_server_it_is_still_in_the_cache(
    server: Server, fetcher: Callable[..., Fetcher]
) -> None:
    fetcher().fetch(at(server, "file"))
    (server.behaviour.folder / "file").unlink()

    assert CONTENT == fetcher().fetch(at(server, "file")).path.read_bytes()


def test_new_version_replaces_the_old_one(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    fetcher().fetch(at(server, "file"))
    (server.behaviour.folder / "file").write_bytes(b"repaired")

    assert b"repaired" == fetcher().fetch(at(server, "file")).path.read_bytes()


def test_object_that_the_disk_damaged_is_fetched_anew(
    server: Server, fetcher: Callable[..., Fetcher]
) -> None:
    fetcher().fetch(at(server, "file")).path.write_bytes(b"damaged")

    assert CONTENT == fetcher().fetch(at(server, "file")).path.read_bytes()


@pytest.mark.parametrize("left", ["objects", "partial"])
def test_kill_between_index_and_object_loses_nothing(
    left: str, server: Server, fetcher: Callable[..., Fetcher], tmp_path: Path
) -> None:
    """The index is written first; the bytes are then still the partial file."""
    fetched = fetcher().fetch(at(server, "file"))
    if left == "partial":
        [index] = (tmp_path / "cache" / "index").glob("*/*.json")
        fetched.path.rename(tmp_path / "cache" / "partial" / f"{index.stem}.part")

    again = fetcher().fetch(at(server, "file"))

    assert CONTENT == again.path.read_bytes()
    assert 0 == again.transferred


def test_damaged_notes_of_the_cache_are_no_harm(
    server: Server, fetcher: Callable[..., Fetcher], tmp_path: Path
) -> None:
    fetcher().fetch(at(server, "file"))
    for note in (tmp_path / "cache" / "index").glob("*/*.json"):
        note.write_bytes(b"\x00\x00")

    assert CONTENT == fetcher().fetch(at(server, "file")).path.read_bytes()


def test_two_that_want_the_same_file_fetch_it_once(server: Server, fetcher: Callable[..., Fetcher]) -> None:
    """The others wait for the first, and ask only whether the file has changed."""
    server.behaviour.pause_s = 0.05
    threads = [threading.Thread(target=lambda: fetcher().fetch(at(server, "file"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [200, 304, 304] == [request["status"] for request in server.requests]


def test_stop_ends_a_download(server: Server, fetcher: Callable[..., Fetcher], pace: object) -> None:
    pace.stop.set()  # type: ignore[attr-defined]

    with pytest.raises(ServiceError, match="interrupted"):
        fetcher().fetch(at(server, "file"))


def test_object_is_named_by_its_content(
    server: Server, fetcher: Callable[..., Fetcher], tmp_path: Path
) -> None:
    (server.behaviour.folder / "twin").write_bytes(CONTENT)

    paths = {fetcher().fetch(at(server, name)).path for name in ("file", "twin")}

    assert {FileCache(tmp_path / "cache").object(hashlib.sha256(CONTENT).hexdigest())} == paths
