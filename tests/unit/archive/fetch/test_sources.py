"""Builds and their outputs are found wherever they lie."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perftrend.archive.fetch import (
    Access,
    BuildFilter,
    BuildSource,
    Web,
    jenkins_address,
    source_at,
)
from perftrend.archive.fetch import tree as tree_module
from perftrend.archive.fetch.builds import ArchivedBuild, ArchivedFile, ContentKind, attempts
from perftrend.archive.fetch.sources import ROBOT_REPORT, JenkinsSource
from perftrend.archive.fetch.tree import Folder, Listing, TreeSource
from perftrend.errors import ArchiveError, ServiceError, UsageError
from tests.doubles.archive_server import Server

OLD, NEW = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)


def plant(folder: Path) -> None:
    """Lay out two jobs of one CI, with all that lies about beside builds."""
    for path in (
        "ci/nightly-2n-clx/9/archives/output.xml.gz",
        "ci/nightly-2n-clx/10/archives/output.xml.gz",
        "ci/nightly-2n-clx/10/archives/output_info.xml.gz",
        "ci/nightly-2n-clx/10/archives/output.xml.gz.sha256",
        "ci/nightly-2n-clx/10/archives/tests/ip4/a b.info.json.gz",
        "ci/nightly-2n-clx/10/console.log.gz",
        "ci/nightly-2n-clx/latest/archives/output.xml.gz",
        "ci/weekly-3n-icx/7/output.xml",
        "ci/index.txt",
    ):
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"<robot/>")
    for folder_, _, files in os.walk(folder):
        moment = (OLD if "/9" in folder_ else NEW).timestamp()
        for name in [*files, "."]:
            os.utime(Path(folder_) / name, (moment, moment))


@pytest.fixture(params=["nginx", "apache", "disk", "tar", "tar.gz"])
def source(request: pytest.FixtureRequest, server: Server, access: Access, tmp_path: Path) -> BuildSource:
    plant(server.behaviour.folder)
    if request.param in ("nginx", "apache"):
        server.behaviour.style = request.param
        return source_at(server.url, access)
    if request.param == "disk":
        return source_at(str(server.behaviour.folder), access)
    path = tmp_path / f"all.{request.param}"
    with tarfile.open(path, "w:gz" if request.param == "tar.gz" else "w") as tar:
        tar.add(server.behaviour.folder, ".")
    return source_at(str(path), access)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (BuildFilter(), ["nightly-2n-clx/10", "nightly-2n-clx/9", "weekly-3n-icx/7"]),
        (BuildFilter(job="nightly-*"), ["nightly-2n-clx/10", "nightly-2n-clx/9"]),
        (BuildFilter(first=8, last=9), ["nightly-2n-clx/9"]),
        (BuildFilter(since=datetime(2026, 2, 1, tzinfo=UTC)), ["nightly-2n-clx/10", "weekly-3n-icx/7"]),
        (BuildFilter(job="nothing"), []),
    ],
)
def test_wanted_builds_are_found_newest_first(
    wanted: BuildFilter, names: list[str], source: BuildSource
) -> None:
    assert names == [build.name for build in source.builds(wanted)]


def test_outputs_of_a_build_come_before_the_rest(source: BuildSource) -> None:
    build = next(iter(source.builds(BuildFilter(job="nightly-*"))))
    files = list(source.files(build))

    assert [
        "archives/output.xml.gz",
        "archives/output_info.xml.gz",
        "archives/tests/ip4/a b.info.json.gz",
    ] == [file.name for file in files]
    assert files[0].checksum_location.endswith("/output.xml.gz.sha256")
    assert [ContentKind.OUTPUT, ContentKind.RESULT, ContentKind.WEAK] == [one.kind for one in attempts(files)]


def test_files_can_be_read(source: BuildSource) -> None:
    build = next(iter(source.builds(BuildFilter())))

    with source.open(next(iter(source.files(build)))) as transfer:
        assert b"<robot/>" == b"".join(iter(lambda: transfer.read(3), b""))


@pytest.mark.parametrize("below", ["ci/nightly-2n-clx/", "ci/nightly-2n-clx/10"])
def test_source_may_begin_at_a_job_or_a_build(below: str, server: Server, access: Access) -> None:
    plant(server.behaviour.folder)

    for place in (f"{server.url}{below}", str(server.behaviour.folder / below)):
        assert "nightly-2n-clx/10" == next(iter(source_at(place, access).builds(BuildFilter()))).name


def test_one_output_is_a_source(tmp_path: Path, access: Access) -> None:
    plant(tmp_path)
    file = tmp_path / "ci/nightly-2n-clx/10/archives/output_info.xml.gz"
    source = source_at(str(file), access)

    [build] = source.builds(BuildFilter())

    assert "nightly-2n-clx/10" == build.name
    assert [file] == [one.path for one in source.files(build)]


def test_output_without_a_build_around_it_is_refused(tmp_path: Path, access: Access) -> None:
    (tmp_path / "output.xml").write_bytes(b"<robot/>")

    with pytest.raises(ArchiveError, match="an output outside a build's folder; move it to JOB/NUMBER/"):
        list(source_at(str(tmp_path / "output.xml"), access).builds(BuildFilter()))


def test_index_page_leads_nowhere_else(server: Server, access: Access) -> None:
    """Of all links of a page only those to its own children count."""
    hrefs = (
        "/", "..", "../5/", "//elsewhere.example/6/", "http://elsewhere.example/7/", "file:///8/", "%2e%2e/",
        "9%2F..%2F..%2Fetc/", "10/11/", "javascript:12/", "?13/", "14%00/", "http://[::1/", "15/",
    )  # fmt: skip
    page = "<html><body>" + "".join(f'<a href="{href}">x</a>' for href in hrefs)
    (server.behaviour.folder / "job").mkdir()
    server.behaviour.pages["/job/"] = page.encode()

    builds = source_at(f"{server.url}job/", access).builds(BuildFilter())

    assert ["job/15"] == [build.name for build in builds]


def test_server_without_an_index_is_told(server: Server, access: Access) -> None:
    server.behaviour.pages["/"] = b"just text"

    with pytest.raises(ArchiveError, match="is not an index page"):
        list(source_at(server.url, access).builds(BuildFilter()))


def test_endless_index_page_is_refused(server: Server, web: Web) -> None:
    with pytest.raises(ServiceError, match="longer than 100000 bytes"):
        web.page(f"{server.url}fault/endless/x", limit=100_000)


class EndlessTree:
    """Folders without end, each with as many again, and no build or output anywhere."""

    path = ("ci",)
    workers = None
    files_date_builds = False

    def __init__(self) -> None:
        self.listed = 0

    def location(self, folder: str) -> str:
        return f"https://logs.example/{folder}"

    def list_folder(self, folder: str) -> Listing:
        self.listed += 1
        return Listing(tuple(Folder(f"{folder}/tests".lstrip("/") + f"{n}" * bool(n)) for n in range(9)))

    def open(self, *_: object, **__: object) -> Any:
        raise AssertionError


def test_endless_tree_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_module, "MOST_LISTINGS", 500)
    tree = EndlessTree()
    source = TreeSource(tree)
    build = ArchivedBuild("nightly", 1, "https://logs.example/1", place="1")

    for listed in (source.builds(BuildFilter()), source.files(build)):
        tree.listed = 0
        with pytest.raises(ArchiveError, match=r"logs\.example/.*: holds more than \d+ folders"):
            list(listed)
        assert tree.listed <= 500


def test_hostile_members_of_a_tar_are_passed_over_by_name(tmp_path: Path, access: Access) -> None:
    said: list[str] = []
    with tarfile.open(tmp_path / "all.tar", "w") as tar:
        for name, kind, target in (
            ("../job/1/output.xml", tarfile.REGTYPE, ""),
            ("/job/2/output.xml", tarfile.REGTYPE, ""),
            ("job/3/output.xml", tarfile.SYMTYPE, "/etc/passwd"),
            ("job/4/output.xml", tarfile.LNKTYPE, "job/5/output.xml"),
            ("job/6/output.xml", tarfile.CHRTYPE, ""),
            ("job/5/output.xml", tarfile.REGTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info, io.BytesIO(b""))

    source = source_at(str(tmp_path / "all.tar"), replace(access, report=said.append))

    assert ["job/5"] == [build.name for build in source.builds(BuildFilter())]
    assert ["../job/1/", "/job/2/", "job/3/", "job/4/", "job/6/"] == [
        line.split("'")[1].removesuffix("output.xml") for line in said
    ]


def test_tar_with_an_enormous_header_is_refused(tmp_path: Path, access: Access) -> None:
    """A header of extensions is read at once: a hostile one would fill the memory."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.XHDTYPE, 1 << 32
    (tmp_path / "all.tar").write_bytes(info.tobuf() + b"\0" * 10_240)

    with pytest.raises(ArchiveError, match="has a header of 4294967296 bytes"):
        source_at(str(tmp_path / "all.tar"), access)


def test_tar_that_is_cut_off_is_told(tmp_path: Path, access: Access) -> None:
    plant(tmp_path / "in")
    with tarfile.open(tmp_path / "all.tgz", "w:gz") as tar:
        tar.add(tmp_path / "in", ".")
    content = (tmp_path / "all.tgz").read_bytes()
    (tmp_path / "all.tgz").write_bytes(content[: len(content) // 2])

    with pytest.raises(ArchiveError, match=r"all.tgz: is damaged"):
        source_at(str(tmp_path / "all.tgz"), access)


@dataclass(frozen=True)
class Artifact:
    path: str
    url: str = "http://jenkins/artifact"


@dataclass(frozen=True)
class Build:
    number: int
    building: bool = False
    artifacts: tuple[Artifact, ...] = ()
    job: str = "team/nightly-2n-clx"
    started: datetime = OLD
    duration_s: float = 60.0
    url: str = "http://jenkins/job/1/"


@dataclass
class Client:
    """What the source asks a Jenkins for, answered from a list."""

    known: list[Build]
    asked: list[object] = field(default_factory=list)

    def jobs(self, pattern: str) -> Iterator[str]:
        self.asked.append(pattern)
        yield "team/nightly-2n-clx"

    def builds(self, job: str, **bounds: object) -> Iterator[Build]:
        self.asked.append((job, bounds))
        yield from self.known


def test_builds_of_a_jenkins_that_ended_are_found(web: Web) -> None:
    client = Client([Build(3, building=True), Build(2), Build(1)])
    wanted = BuildFilter(job="team/*", since=OLD, first=1, last=3)

    builds = list(JenkinsSource(client, web).builds(wanted))

    assert ["team/nightly-2n-clx/2", "team/nightly-2n-clx/1"] == [build.name for build in builds]
    assert 60 == (builds[0].finished - builds[0].started).total_seconds()  # type: ignore[operator]
    assert ["team/*", ("team/nightly-2n-clx", {"since": OLD, "numbers": (1, 3)})] == client.asked


def test_artifacts_come_before_what_the_robot_plugin_keeps(web: Web) -> None:
    names = ("archives/output_info.xml.gz", "../output.xml", "archives/output.xml.gz", "console.log")
    source = JenkinsSource(Client([Build(1, artifacts=tuple(map(Artifact, names)))]), web)

    files = list(source.files(next(source.builds(BuildFilter()))))

    assert ["archives/output.xml.gz", "robot-plugin.zip", "archives/output_info.xml.gz"] == [
        file.name for file in files
    ]
    assert f"http://jenkins/job/1/{ROBOT_REPORT}" == files[1].location


def test_outputs_of_several_runs_are_refused_and_parts_of_one_are_not(web: Web) -> None:
    def files(*names: str) -> list[str]:
        source = JenkinsSource(Client([Build(1, artifacts=tuple(map(Artifact, names)))]), web)
        return [file.name for file in source.files(next(source.builds(BuildFilter())))]

    with pytest.raises(ArchiveError, match=r"several outputs, archives/a/1/output.xml and archives/b/1/out"):
        files("archives/b/1/output.xml", "archives/a/1/output.xml")
    merged = files("archives/output.xml", "archives/output.xml.gz", "archives/parts/1/output.xml")
    assert ["archives/output.xml.gz", "archives/output.xml"] == merged[:2]


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("jenkins+https://ci.example/", ("https://ci.example", "")),
        ("jenkins+https://ci.example/jenkins/job/a/job/b%20c/", ("https://ci.example/jenkins", "a/b c")),
    ],
)
def test_address_of_a_jenkins_may_name_a_job(location: str, address: tuple[str, str]) -> None:
    assert address == jenkins_address(location)


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("ftp://x/y", "cannot begin with ftp://"),
        ("htps://x/y", "did you mean 'https'"),
        ("https://me:secret@x/y", "must not contain a user or a password"),
        ("https:///y", "names no server"),
        ("https://[::1/", "is not a valid URL"),
        ("https://x:port/", "is not a valid URL"),
        ("/nowhere/at/all", "no such file or folder"),
    ],
)
def test_place_that_is_none_is_refused(location: str, reason: str, access: Access) -> None:
    with pytest.raises(UsageError, match=reason) as refusal:
        source_at(location, access)
    assert "secret" not in str(refusal.value)


def test_json_results_outweigh_the_weaker_output() -> None:
    files = [
        ArchivedFile(name, name) for name in ("output_info.xml.gz", "tests/a.info.json", "tests/b.info.json")
    ]

    assert [(ContentKind.RESULT, 2), (ContentKind.WEAK, 1)] == [
        (attempt.kind, len(attempt.files)) for attempt in attempts(files)
    ]
