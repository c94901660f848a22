"""Artifacts and consoles, from a double of Jenkins."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from perftrend.clients.jenkins import Jenkins, UnavailableError
from perftrend.errors import ServiceError
from tests.doubles import faulty
from tests.doubles.jenkins import JenkinsDouble, Job

Client = Callable[..., Jenkins]
PATH = "/job/x/1/artifact/a%20b"
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def url(double: JenkinsDouble) -> str:
    double.files[PATH] = CONTENT
    return double.url + PATH


def read(jenkins: Jenkins, url: str) -> bytes:
    with jenkins.open(url) as chunks:
        return b"".join(chunks)


def test_file_is_read_as_it_is_sent(client: Client, double: JenkinsDouble, url: str) -> None:
    assert CONTENT == read(client(), url)
    assert "identity" == double.requests[-1].headers["Accept-Encoding"]


def test_part_where_all_was_requested_is_refused(client: Client, double: JenkinsDouble, url: str) -> None:
    double.always = lambda handler: handler.send(206, b"part", {"Content-Range": "bytes 5-9/10"})

    with pytest.raises(ServiceError, match="answers with status 206, but no file"):
        read(client(), url)


def test_transfer_that_breaks_off_is_an_error(client: Client, double: JenkinsDouble, url: str) -> None:
    double.faults.append(faulty.cut_off)
    got = []
    with client().open(url) as chunks, pytest.raises(UnavailableError, match="broke the connection off"):
        got.extend(chunks)

    assert [b'{"jobs": '] == got


def test_error_of_who_reads_stays_its_own(client: Client, url: str) -> None:
    with pytest.raises(OSError, match="disk full"), client().open(url):
        raise OSError("disk full")


def test_file_that_is_packed_for_the_way_stays_packed(
    client: Client, double: JenkinsDouble, url: str
) -> None:
    double.faults.append(lambda handler: handler.send(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}))

    assert b"\x1f\x8b" == read(client(), url)


@pytest.mark.parametrize(
    "path", ["/../x", "/job/%2e%2e/x", "/job/x/%2E./", "/a/..%2f..%2fx", "/a/..%5Cx", "x.example.org/", ""]
)
def test_what_lies_elsewhere_is_not_asked_for(client: Client, double: JenkinsDouble, path: str) -> None:
    with pytest.raises(ServiceError, match="is not below"):
        client().open(double.url + path)

    assert [] == double.requests


@pytest.mark.parametrize("path", ["../../../secret", "/etc/passwd/..", "a/./b"])
def test_artifact_that_leads_elsewhere_is_told_when_it_is_opened(
    client: Client, double: JenkinsDouble, path: str
) -> None:
    double.jobs["x"] = Job([1], artifacts=(path,))
    [artifact] = client().build("x", 1).artifacts

    assert path == artifact.path
    with pytest.raises(ServiceError, match="is not below"):
        client().open(artifact.url)


def test_artifact_with_odd_letters_is_found(client: Client, double: JenkinsDouble) -> None:
    double.jobs["x"] = Job([1], artifacts=("a?b#c%20d/ü&+.txt",))
    double.files["/job/x/1/artifact/a%3Fb%23c%2520d/%C3%BC%26%2B.txt"] = b"found"
    [artifact] = client().build("x", 1).artifacts

    assert b"found" == read(client(), artifact.url)


def test_console_is_followed_across_letters_that_are_cut(client: Client, double: JenkinsDouble) -> None:
    double.log = ("übermäßig ✓ " * 5).encode()

    assert "übermäßig ✓ " * 5 == "".join(client().console("x", 1))
    assert ("übermäßig ✓ " * 5)[6:] == "".join(client().console("x", 1, start=8))


def test_console_that_fails_on_the_way_is_asked_for_again(client: Client, double: JenkinsDouble) -> None:
    double.log = b"all of it, once"
    double.faults.extend([None, faulty.reset, faulty.status(500)])

    assert "all of it, once" == "".join(client().console("x", 1))


def test_console_of_a_server_that_tells_no_size_goes_on(client: Client, double: JenkinsDouble) -> None:
    double.faults.append(lambda handler: handler.send(200, b"", {"X-Text-Size": "-5", "X-More-Data": "true"}))
    double.log = b"here"

    assert "here" == "".join(client().console("x", 1))


def test_threads_share_a_client(client: Client, double: JenkinsDouble, url: str) -> None:
    jenkins = client()

    with ThreadPoolExecutor(8) as threads:
        contents = list(threads.map(lambda _: read(jenkins, url), range(40)))

    assert [CONTENT] * 40 == contents
