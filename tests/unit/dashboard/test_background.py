from __future__ import annotations

import logging
import threading

import pytest

from perftrend.dashboard import background
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.errors import StoreError


@pytest.mark.parametrize("fault", [StoreError("the store is away"), ValueError("a defect")])
def test_work_that_fails_is_told_of_and_done_again(
    site: AppContext, fault: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RETRY_S", 0.01)
    faults, done = [fault], threading.Event()

    def work(_: AppContext, __: threading.Event) -> None:
        if faults:
            raise faults.pop()
        done.set()

    with caplog.at_level(logging.ERROR), run_in_background(site, work):
        assert done.wait(10)

    (record,) = caplog.records
    assert str(fault) in record.getMessage()


def test_work_that_waits_ends_with_the_block(site: AppContext) -> None:
    ended = threading.Event()

    def work(_: AppContext, ending: threading.Event) -> None:
        ending.wait(10)
        ended.set()

    with run_in_background(site, work):
        pass

    assert ended.is_set()
