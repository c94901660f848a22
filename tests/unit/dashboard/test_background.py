from __future__ import annotations

import logging
import threading

import pytest

from perftrend.dashboard import background
from perftrend.dashboard.background import running
from perftrend.dashboard.site import Site
from perftrend.errors import StoreError


@pytest.mark.parametrize("fault", [StoreError("the store is away"), ValueError("a defect")])
def test_work_that_fails_is_told_of_and_done_again(
    site: Site, fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RETRY_S", 0.01)
    faults, done = [fault], threading.Event()

    def work(_: Site, __: threading.Event) -> None:
        if faults:
            raise faults.pop()
        done.set()

    with caplog.at_level(logging.ERROR), running(site, work):
        assert done.wait(10)

    (record,) = caplog.records
    assert str(fault) in record.getMessage()


def test_work_that_waits_ends_with_the_block(site: Site) -> None:
    ended = threading.Event()

    def work(_: Site, ending: threading.Event) -> None:
        ending.wait(10)
        ended.set()

    with running(site, work):
        pass

    assert ended.is_set()
