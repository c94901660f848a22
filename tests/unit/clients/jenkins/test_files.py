"""Artifacts and consoles, from a double of Jenkins."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from perftrend.clients.jenkins import Jenkins, UnavailableError
from perftrend.errors import ServiceError
from tests.doubles import faulty
from tests.doubles import jenkins as doubles
from tests.doubles.jenkins import JenkinsDouble, Job

Client = Callable[..., Jenkins]
PATH = "/job/x/1/artifact/a%20b"
CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def url(double: JenkinsDouble) -> str:
    double.files[PATH] = CONTENT
    return double.url + PATH


def read(jenkins: Jenkins, url: str, start: int = 0, validator: str = "") -> tuple[int, int | None, bytes]:
    with jenkins.open(url, start=start, validator=validator) as file:
        return file.start, file.size, b"".join(file.chunks())


def test_file_is_read_as_it_is_sent(client: Client, double: JenkinsDouble, url: str) -> None:
    assert (0, len(CONTENT), CONTENT) == read(client(), url)
    assert "identity" == double.requests[-1].headers["Accept-Encoding"]


def test_rest_of_a_file_is_read_from_its_offset(client: Client, url: str) -> None:
    assert (100, len(CONTENT), CONTENT[100:]) == read(client(), url, 100, '"1"')


def test_file_that_has_changed_is_sent_whole(client: Client, double: JenkinsDouble, url: str) -> None:
    assert 0 == read(client(), url, 100, '"0"')[0]

    # A server that does not know If-Range sends the rest of another file.
    other = {"Content-Range": f"bytes 100-199/{len(CONTENT)}", "ETag": '"2"'}
    double.faults.append(lambda handler: handler.send(206, CONTENT[100:200], other))
    assert (0, len(CONTENT), CONTENT) == read(client(), url, 100, '"1"')


def test_server_that_knows_no_ranges_sends_all(client: Client, double: JenkinsDouble, url: str) -> None:
    double.ranges = False

    assert (0, len(CONTENT), CONTENT) == read(client(), url, 100)


def test_file_that_is_there_already_brings_nothing_more(client: Client, url: str) -> None:
    assert (len(CONTENT), len(CONTENT), b"") == read(client(), url, len(CONTENT), '"1"')
    assert (0, len(CONTENT), CONTENT) == read(client(), url, len(CONTENT) + 5, '"1"')


@pytest.mark.parametrize(
    "told", ["bytes 0-9/10", "bytes x-y/z", "", "bytes 100-" + "9" * 5000 + "/*", "10-5"]
)
def test_part_that_was_not_asked_for_is_not_taken(
    client: Client, double: JenkinsDouble, url: str, told: str
) -> None:
    double.faults.append(lambda handler: handler.send(206, b"part", {"Content-Range": told}))

    assert (0, len(CONTENT), CONTENT) == read(client(), url, 100)


def test_part_where_all_was_asked_for_is_refused(client: Client, double: JenkinsDouble, url: str) -> None:
    double.always = lambda handler: handler.send(206, b"part", {"Content-Range": "bytes 5-9/10"})

    with pytest.raises(ServiceError, match="answers with status 206, but no file"):
        read(client(), url)


def test_length_that_is_none_is_not_believed(client: Client, double: JenkinsDouble, url: str) -> None:
    def without_length(handler: doubles.Handler) -> None:
        handler.close_connection = True
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\nabc")

    double.faults.append(without_length)

    assert (0, None, b"abc") == read(client(), url)


@pytest.mark.parametrize("tag", ['W/"1"', "", '"' + "x" * 300 + '"'])
def test_weak_or_strange_tag_is_no_validator(
    client: Client, double: JenkinsDouble, url: str, tag: str
) -> None:
    double.tag = tag

    with client().open(url) as file:
        assert "" == file.validator


def test_transfer_that_breaks_off_may_be_resumed(client: Client, double: JenkinsDouble, url: str) -> None:
    double.faults.append(faulty.cut_off)
    got = []
    with client().open(url) as file, pytest.raises(UnavailableError, match="broke the connection off"):
        got.extend(file.chunks())

    assert [b'{"jobs": '] == got


def test_error_of_who_reads_stays_its_own(client: Client, url: str) -> None:
    with pytest.raises(OSError, match="disk full"), client().open(url):
        raise OSError("disk full")


def test_file_that_is_packed_for_the_way_says_so(client: Client, double: JenkinsDouble, url: str) -> None:
    double.faults.append(lambda handler: handler.send(200, b"\x1f\x8b", {"Content-Encoding": "gzip"}))

    with client().open(url) as file:
        assert ("gzip", b"\x1f\x8b") == (file.encoding, b"".join(file.chunks()))


@pytest.mark.parametrize(
    "path", ["/../x", "/job/%2e%2e/x", "/job/x/%2E./", "/a/..%2f..%2fx", "/a/..%5Cx", "x.example.org/", ""]
)
def test_what_lies_elsewhere_is_not_asked_for(client: Client, double: JenkinsDouble, path: str) -> None:
    with pytest.raises(ServiceError, match="does not lie below"):
        client().open(double.url + path)

    assert [] == double.requests


@pytest.mark.parametrize("path", ["../../../secret", "/etc/passwd/..", "a/./b"])
def test_artifact_that_leads_elsewhere_is_told_when_it_is_opened(
    client: Client, double: JenkinsDouble, path: str
) -> None:
    double.jobs["x"] = Job([1], artifacts=(path,))
    [artifact] = client().build("x", 1).artifacts

    assert path == artifact.path
    with pytest.raises(ServiceError, match="does not lie below"):
        client().open(artifact.url)


def test_artifact_with_odd_letters_is_found(client: Client, double: JenkinsDouble) -> None:
    double.jobs["x"] = Job([1], artifacts=("a?b#c%20d/ü&+.txt",))
    double.files["/job/x/1/artifact/a%3Fb%23c%2520d/%C3%BC%26%2B.txt"] = b"found"
    [artifact] = client().build("x", 1).artifacts

    assert b"found" == read(client(), artifact.url)[2]


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
        contents = list(threads.map(lambda _: read(jenkins, url)[2], range(40)))

    assert [CONTENT] * 40 == contents
