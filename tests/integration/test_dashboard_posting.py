"""A table of ratios is posted by the dashboard on a real Gerrit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from tests.integration.servers.dashboard import EDITOR, SIGNING_IN, USER_HEADER, Dashboard, fill
from tests.integration.servers.gerrit import Server
from tests.unit.dashboard.conftest import TESTBEDS, TESTS

PROJECT = "dashboard"
ASKED = {"vertical": "testbed", "left": TESTBEDS[0], "right": TESTBEDS[1]}
HEADERS = {"Accept": "application/json", USER_HEADER: EDITOR}


@pytest.mark.slow
def test_table_is_posted_once_however_often_it_is_sent(gerrit_server: Server, tmp_path: Path) -> None:
    robot = gerrit_server.create_user("dashboard-robot", ["Service Users"])
    gerrit_server.create_project(PROJECT)
    pushed = gerrit_server.push(gerrit_server.clone(PROJECT, tmp_path / "clone"), {"a.c": "int a;\n"})
    gerrit = {"url": gerrit_server.url, "user": robot.name, "token": robot.password, "notify": "none"}
    fill(tmp_path / "store.sqlite")

    with Dashboard(tmp_path, settings={**SIGNING_IN}, more={"gerrit": gerrit}) as dashboard:
        address = f"{dashboard.url}/compare/message"
        shown = requests.get(address, params=ASKED, headers=HEADERS, timeout=60).json()
        token = form_token(dashboard)

        def send() -> Any:
            body = {"digest": shown["digest"], "nonce": shown["nonce"], "change": pushed.number}
            headers = {**HEADERS, "X-CSRF-Token": token}
            return requests.post(address, params=ASKED, json=body, headers=headers, timeout=120)

        with ThreadPoolExecutor(3) as pool:
            answers = [each.result() for each in [pool.submit(send) for _ in range(3)]]

    assert [200] * 3 == [answer.status_code for answer in answers], answers[0].text
    assert [False, False, True] == sorted(answer.json()["is_new"] for answer in answers)
    messages = gerrit_server.ask("GET", f"changes/{pushed.number}/messages")
    [message] = [each["message"] for each in messages if TESTS[0] in each["message"]]
    # Gerrit heads it with the patch set, and takes away blanks at the end.
    assert message.split("\n\n", 1)[1].strip() == shown["text"].strip()


def form_token(dashboard: Dashboard) -> str:
    page = requests.get(
        f"{dashboard.url}/compare/message", params=ASKED, headers={USER_HEADER: EDITOR}, timeout=60
    ).text
    return page.split('name="csrf" value="', 1)[1].split('"', 1)[0]
