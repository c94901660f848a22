"""Archived builds from real servers into the store, with a job that is killed again and again."""

from __future__ import annotations

import gzip
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import urlsplit

import boto3
import pytest
from moto.server import ThreadedMotoServer

from perftrend.archive.fetch import BuildFilter, DownloadLimits, Fetcher, FileCache, RateLimiter
from perftrend.archive.fetch.bucket import Bucket
from perftrend.archive.fetch.cache import PartialFile
from perftrend.archive.fetch.tree import TreeSource
from perftrend.store import Store
from tests.integration.servers.environment import inherited

ROOT = Path(__file__).parents[2]
SERVER = ROOT / "tests" / "doubles" / "archive_server.py"
JOB = "nightly-2n-clx"
BUILDS, KILLS = 60, 6
MANY_BUILDS, MANY_KILLS = 500, 50
"""With ``--thorough``."""

TEST = """<test name="64b-1c-ethip4-ip4base-{test}-mrr"><kw name="Log"><msg level="INFO">{noise}</msg></kw>
<tag>64B</tag><tag>1C</tag><tag>MRR</tag><status status="PASS" start="2026-01-01T00:00:00" elapsed="1">\
Maximum Receive Rate trial results in packets per second: [{rate}.0, {rate}.5]</status></test>"""
OUTPUT = """<?xml version="1.0" encoding="UTF-8"?>
<robot generator="Robot 7.1 (Python 3.11.7 on linux)" schemaversion="5"><suite name="Tests">{tests}
<meta name="Testbed">2n-clx</meta>
<status status="PASS" start="2026-01-01T{hour:02}:00:00.000000" elapsed="{build}"/></suite></robot>"""


def output(build: int) -> bytes:
    """Return an output that no other build has; its log does not pack well."""
    chance = random.Random(build)  # noqa: S311 - the same every time
    tests = "".join(
        TEST.format(test=number, rate=10_000_000 + build * 10 + number, noise=chance.randbytes(2000).hex())
        for number in range(3)
    )
    return OUTPUT.format(tests=tests, hour=build % 24, build=build).encode()


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory, *, thorough: bool) -> Path:
    folder = tmp_path_factory.mktemp("archive")
    for build in range(1, (MANY_BUILDS if thorough else BUILDS) + 1):
        path = folder / "ci" / JOB / str(build) / "archives" / "output.xml.gz"
        path.parent.mkdir(parents=True)
        path.write_bytes(gzip.compress(output(build), mtime=0))
    return folder


class Request(NamedTuple):
    """Bytes of an output that were sent."""

    path: str
    came_s: float
    offset: int
    sent: int


def offset(line: Mapping[str, Any]) -> int:
    """Return from which byte on a file was sent."""
    return int(line["range"].removeprefix("bytes=").removesuffix("-")) if line["status"] == 206 else 0


def held(folder: Path) -> Counter[str]:
    """Return how many bytes of each output lie in the cache of a folder, by the path of its address."""
    bytes_of: Counter[str] = Counter()
    for note in (folder / "cache").glob("partial/*.json"):
        with suppress(FileNotFoundError):
            bytes_of[path_of(note)] = note.with_suffix(".part").stat().st_size
    for note in (folder / "cache").glob("index/*/*.json"):
        sha256 = json.loads(note.read_bytes())["sha256"]
        with suppress(FileNotFoundError):
            bytes_of[path_of(note)] = FileCache(folder / "cache").object(sha256).stat().st_size
    return bytes_of


def transfers(folder: Path) -> bool:
    """Whether a part of an output is in the cache of a folder, so that its transfer can be resumed."""
    for part in (folder / "cache").glob("partial/*.part"):
        with suppress(FileNotFoundError):
            if part.stat().st_size:
                return True
    return False


def path_of(note: Path) -> str:
    return urlsplit(json.loads(note.read_bytes())["location"]).path


class LogServer:
    """The double in a process of its own."""

    def __init__(self, archive: Path, log: Path) -> None:
        self.archive = archive
        self.log = log
        log.touch()
        command = [sys.executable, str(SERVER), str(archive), str(log), "--chunk", "512", "--pause", "0.05"]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}/"

    def answered(self) -> int:
        return self.log.read_bytes().count(b"\n")

    def requests(self) -> list[Request]:
        """Return what was sent of outputs, as far as it is over."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return [
            Request(line["path"], line["came_s"], offset(line), line["sent"])
            for line in lines
            if line["path"].endswith(".gz") and line["sent"]
        ]

    def stop(self) -> None:
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def log_server(archive: Path, tmp_path: Path) -> Iterator[LogServer]:
    server = LogServer(archive, tmp_path / "log")
    yield server
    server.stop()


def job(folder: Path, source: str, *arguments: str, **more: str) -> subprocess.Popen[str]:
    """Start the job in a process group of its own."""
    folder.mkdir(exist_ok=True)
    kept = inherited()
    paths = f"{ROOT}{os.pathsep}{ROOT / 'resources'}"
    environment = kept | {"PYTHONPATH": paths, "PERFTREND_FETCH_REQUESTS_PER_SECOND": "5000"} | more
    environment.setdefault("PERFTREND_FETCH_WORKERS", "8")
    with (folder / "said").open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "perftrend.cli.ingest", source, *arguments],
            cwd=folder, env=environment, stdout=said, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip


def done(folder: Path, source: str, *arguments: str, **more: str) -> tuple[int, str]:
    """Run the job to its end, and return its exit code and what it said."""
    code = job(folder, source, *arguments, **more).wait(timeout=300)
    return code, (folder / "said").read_text()


class SlowLogServer(BaseHTTPRequestHandler):
    """An index with one build, whose output is a chunk with a length that has no end."""

    protocol_version = "HTTP/1.1"
    entries: ClassVar = {"/": f"{JOB}/", f"/{JOB}/": "1/", f"/{JOB}/1/": "output.xml"}
    requested: ClassVar = threading.Event()

    def do_GET(self) -> None:
        if entry := self.entries.get(self.path):
            page = f'<html><a href="{entry}">{entry}</a></html>'.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)
            return
        self.close_connection = True
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;")
        self.requested.set()
        with suppress(OSError):
            while True:
                self.wfile.write(b"x")
                time.sleep(1)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def test_slow_server_does_not_hold_a_job_that_is_to_end(tmp_path: Path) -> None:
    """The library reads 65,536 bytes of a chunk's length, which takes this server 18 hours."""
    with ThreadingHTTPServer(("127.0.0.1", 0), SlowLogServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        # Longer than the test waits: it is the signal that ends the job.
        started = job(
            tmp_path / "job", f"http://127.0.0.1:{server.server_port}/", PERFTREND_JENKINS_TIMEOUT_S="600"
        )
        try:
            assert SlowLogServer.requested.wait(120)
            started.terminate()

            assert 130 == started.wait(timeout=120)
        finally:
            started.kill()
            server.shutdown()


def content(folder: Path) -> list[str]:
    """Return all that the store of a folder holds, in words: runs, results, details, in the order of time."""
    with Store.open(folder / "perftrend.sqlite") as store:
        return [f"{run!r} {store.results(run)!r}" for run in store.runs("2n-clx")]


@pytest.mark.slow
def test_killed_again_and_again_it_loses_nothing_and_fetches_nothing_twice(
    log_server: LogServer, tmp_path: Path, *, thorough: bool
) -> None:
    builds, kills = (MANY_BUILDS, MANY_KILLS) if thorough else (BUILDS, KILLS)
    chance = random.Random(None if thorough else 1)  # noqa: S311 - the same every time, or moments that vary
    moments_s, on_disk = [0.0], [Counter[str]()]
    killed = tmp_path / "killed"
    for _ in range(kills):
        started = job(killed, log_server.url)
        # Moments are counted in requests, three a build, so that work is left for all of the kills.
        until = log_server.answered() + chance.randint(0, 4 * builds // kills)
        while started.poll() is None and (log_server.answered() < until or not transfers(killed)):
            time.sleep(0.005)
        time.sleep(chance.uniform(0, 0.05))
        started.kill()
        assert -signal.SIGKILL == started.wait()
        on_disk.append(held(killed))
        moments_s.append(time.monotonic())

    code, said = done(tmp_path / "killed", log_server.url)
    requests = log_server.requests()
    # It is the disk that counts, and not what the server sent: a kill may leave all of it in buffers.
    elsewhere = [
        request
        for request in requests
        if request.offset != on_disk[bisect_right(moments_s, request.came_s) - 1][request.path]
    ]
    last = Counter(request.path for request in requests if request.came_s > moments_s[-1])

    assert 0 == code, said
    assert [] == elsewhere
    assert {1} == set(last.values())
    assert any(request.offset for request in requests), "no output was cut off in its middle"
    assert not list((tmp_path / "killed" / "cache" / "partial").iterdir())
    assert 0 == done(tmp_path / "whole", log_server.url)[0]
    assert builds == len(content(tmp_path / "whole"))
    assert content(tmp_path / "whole") == content(tmp_path / "killed")


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve S3 on this machine; return its address."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def test_builds_are_taken_from_s3(
    s3: str, archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {
        "AWS_ENDPOINT_URL": s3,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "hidden",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3")
    client.create_bucket(Bucket="logs")
    for build in (1, 2, 3):
        body = (archive / "ci" / JOB / str(build) / "archives" / "output.xml.gz").read_bytes()
        client.put_object(Bucket="logs", Key=f"ci/{JOB}/{build}/archives/output.xml.gz", Body=body)
    parts = f"ci/{JOB}/3/archives/output.xml.gz"
    upload = client.create_multipart_upload(Bucket="logs", Key=parts)["UploadId"]
    part = client.upload_part(Bucket="logs", Key=parts, UploadId=upload, PartNumber=1, Body=body)
    client.complete_multipart_upload(
        Bucket="logs", Key=parts, UploadId=upload,
        MultipartUpload={"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
    )  # fmt: skip
    client.put_object(Bucket="logs", Key=f"ci/{JOB}/4/console.log.gz", Body=b"")

    code, said = done(tmp_path / "s3", "s3://logs/ci/")

    assert 0 == code, said
    assert f"new: {JOB}/1..3\nmissing: {JOB}/4\n" in said
    assert 3 == len(content(tmp_path / "s3"))
    said = done(tmp_path / "s3", f"s3://logs/ci/{JOB}")[1]
    assert f"known: {JOB}/1..3\n" in said
    assert " 0.0 MB" in said
    time.sleep(1.1)  # S3 counts seconds
    another = gzip.compress(output(9).replace(b"2026-01-01", b"2027-01-01"), mtime=0)
    client.put_object(Bucket="logs", Key=f"ci/{JOB}/2/archives/output.xml.gz", Body=another)
    said = done(tmp_path / "s3", f"s3://logs/ci/{JOB}")[1]
    assert f"new: {JOB}/2\nknown: {JOB}/1, {JOB}/3\n" in said
    code, said = done(tmp_path / "none", "s3://nowhere/ci")
    assert (3, "perftrend: s3://nowhere/ci: the bucket or key does not exist\n") == (code, said)
    code, said = done(tmp_path / "s3", f"s3://logs/ci/{JOB}", "--since", "2100-01-01")
    assert 0 == code, said
    assert "hidden" not in said


def test_transfer_from_s3_goes_on_where_it_stopped(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ENDPOINT_URL": s3, "ACCESS_KEY_ID": "test", "SECRET_ACCESS_KEY": "x"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    body = random.Random(1).randbytes(300_000)  # noqa: S311 - the same every time
    client = boto3.client("s3", endpoint_url=s3, region_name="us-east-1")
    client.create_bucket(Bucket="resumed")
    client.put_object(Bucket="resumed", Key="job/1/output.xml.gz", Body=body)
    source = TreeSource(Bucket("resumed", RateLimiter(1000)))
    [file] = source.files(next(source.builds(BuildFilter())))
    cache = FileCache(tmp_path)
    with cache.partial(file.location) as partial:
        partial.begin(PartialFile(file.location, file.version))
        partial.append(body[:100_000])

    fetched = Fetcher(source, cache, RateLimiter(1000), DownloadLimits()).fetch(file)

    assert body == fetched.path.read_bytes()
    assert 200_000 == fetched.transferred
    assert 0 == Fetcher(source, cache, RateLimiter(1000), DownloadLimits()).fetch(file).transferred
