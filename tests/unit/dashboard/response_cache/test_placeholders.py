"""The parts of a cached response that are replaced for each request."""

from __future__ import annotations

from perftrend.dashboard.response_cache.cache import Answer
from perftrend.dashboard.response_cache.cache_key import NAME, TOKEN, parts_of


def test_each_second_part_is_a_blank() -> None:
    body = f"<p>{NAME}</p><input value={TOKEN}>{TOKEN}".encode()

    assert [
        b"<p>",
        NAME.encode(),
        b"</p><input value=",
        TOKEN.encode(),
        b">",
        TOKEN.encode(),
        b"",
    ] == parts_of(body)


def test_body_without_blanks_is_one_part() -> None:
    assert [b"blank-0123"] == parts_of(b"blank-0123")


def test_answer_that_must_not_be_kept_is_told_by_its_headers() -> None:
    def answer(status: int, *headers: tuple[bytes, bytes]) -> Answer:
        begin = {"type": "http.response.start", "status": status, "headers": headers}
        return Answer.of([begin, {"type": "http.response.body", "body": b"x"}])

    assert answer(200, (b"cache-control", b"private, no-cache")).is_cacheable
    assert not answer(200, (b"cache-control", b"private, no-store")).is_cacheable
    assert not answer(404).is_cacheable
    assert answer(404).may_be_shared
    assert not answer(200, (b"set-cookie", b"a=b")).may_be_shared
