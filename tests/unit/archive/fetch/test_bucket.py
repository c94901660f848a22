"""A bucket of a server that is too slow."""

from __future__ import annotations

from functools import partial

import pytest

from perftrend.archive.fetch import RateLimiter, Web
from perftrend.archive.fetch.builds import ArchivedFile, InterruptedTransferError, Version
from tests.doubles.archive_server import Server


def test_head_without_an_end_is_given_up(
    server: Server, pace: RateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = pytest.importorskip("perftrend.archive.fetch.bucket", reason="needs s3fs")
    monkeypatch.setattr(bucket, "_DEADLINE_S", 1.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{server.url}fault/drip-head")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    with pytest.raises(InterruptedTransferError, match="s3://slow/ci: does not answer within 1 s"):
        bucket.Bucket("slow/ci", pace).list_folder("")


class Signer:
    """Says what s3fs says of a key."""

    def __init__(self, url: str) -> None:
        self._url = url

    def info(self, _: str, **__: object) -> dict[str, object]:
        return {"ETag": '"0123"', "size": 6}

    def url(self, _: str, **__: object) -> str:
        return self._url


def test_file_that_drips_is_given_up(server: Server, pace: RateLimiter) -> None:
    bucket = pytest.importorskip("perftrend.archive.fetch.bucket", reason="needs s3fs").Bucket("ci", pace)
    (server.behaviour.folder / "output.xml").write_bytes(b"x" * 100)
    bucket._files = Signer(f"{server.url}fault/drip/output.xml?X-Amz-Signature=secret")
    bucket._web = Web(pace, timeout_s=0.1)

    with (
        pytest.raises(InterruptedTransferError, match="sends next to nothing") as caught,
        bucket.open(ArchivedFile("s3://ci/output.xml", "output.xml")) as transfer,
    ):
        list(iter(partial(transfer.read, 1000), b""))
    assert "secret" not in str(caught.value)


def test_file_that_was_replaced_meanwhile_is_fetched_later(server: Server, pace: RateLimiter) -> None:
    bucket = pytest.importorskip("perftrend.archive.fetch.bucket", reason="needs s3fs").Bucket("ci", pace)
    (server.behaviour.folder / "output.xml").write_bytes(b"x" * 100)
    bucket._files = Signer(f"{server.url}output.xml")

    with (
        pytest.raises(InterruptedTransferError, match=r"s3://ci/output\.xml: was replaced"),
        bucket.open(ArchivedFile("s3://ci/output.xml", "output.xml")),
    ):
        pass


def test_key_that_is_known_is_not_requested(server: Server, pace: RateLimiter) -> None:
    bucket = pytest.importorskip("perftrend.archive.fetch.bucket", reason="needs s3fs").Bucket("ci", pace)
    bucket._files = Signer(f"{server.url}output.xml")

    with bucket.open(ArchivedFile("s3://ci/output.xml", "output.xml"), version=Version('"0123"')) as transfer:
        assert transfer.unchanged
    assert [] == server.behaviour.requests
