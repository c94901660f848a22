"""A bucket of a server that is too slow."""

from __future__ import annotations

import pytest

from perftrend.archive.fetch import Pace
from perftrend.archive.fetch.builds import InterruptedTransferError
from tests.doubles.archive_server import Server


def test_head_without_an_end_is_given_up(server: Server, pace: Pace, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = pytest.importorskip("perftrend.archive.fetch.bucket", reason="needs s3fs")
    monkeypatch.setattr(bucket, "_DEADLINE_S", 1.0)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{server.url}fault/drip-head")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    with pytest.raises(InterruptedTransferError, match="s3://slow/ci: does not answer within 1 s"):
        bucket.Bucket("slow/ci", pace).listing("")
