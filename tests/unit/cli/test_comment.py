"""A job reads its request from the environment of its build."""

from __future__ import annotations

import base64
from dataclasses import asdict
from typing import Any

import pytest

from perftrend.errors import EXIT_PASS, UsageError
from perftrend.execution import job_request
from perftrend.settings import Settings

TOLD = {
    "GERRIT_CHANGE_NUMBER": "1234",
    "GERRIT_PATCHSET_NUMBER": "5",
    "GERRIT_PATCHSET_REVISION": "a" * 40,
    "GERRIT_REFSPEC": "refs/changes/34/1234/5",
    "GERRIT_PROJECT": "team/router of ours",
    "GERRIT_BRANCH": "stable/25.02",
    "GERRIT_EVENT_HASH": "0a1b2c",
}


def asked(
    text: str, job: str = "perftest", told: dict[str, str] = TOLD, **overrides: Any
) -> job_request.JobRequest | None:
    settings = Settings.load(environment={}, overrides={"testbed": "1n-veth", **overrides})
    encoded = base64.b64encode(text.encode()).decode()
    return job_request.read_request({job_request.VARIABLE: encoded, **told}, job, settings)


def test_request_is_told_with_its_patch_set() -> None:
    found = asked("perftest-1n-veth MRRAND64b !*acl* -- --duration 2.5 --multiplicity 3")

    assert found
    assert {
        "change": 1234,
        "patch_set": 5,
        "revision": "a" * 40,
        "request": "0a1b2c",
        "ref": "refs/changes/34/1234/5",
        "project": "team/router of ours",
        "branch": "stable/25.02",
        "overrides": {
            "tags": ("mrrAND64bNOT*acl*",), "trial.duration_s": 2.5, "trial.multiplicity": 3,
        },
    } == {name: value for name, value in asdict(found).items() if not name.startswith("trigger")}  # fmt: skip
    assert not found.is_dry_run


def test_hash_and_dry_run_are_those_of_the_trigger() -> None:
    found = asked("bisecttest-1n-veth ABCDEF1 mrr -- --dry-run", "bisect")

    assert found
    assert ("abcdef1", True) == (found.trigger.old, found.is_dry_run)


def test_build_without_a_comment_was_asked_nothing() -> None:
    assert job_request.read_request(TOLD, "perftest", Settings()) is None
    assert job_request.read_request({job_request.VARIABLE: "  \n", **TOLD}, "perftest", Settings()) is None


def test_comment_that_somebody_gave_by_hand_has_no_change() -> None:
    found = asked("perftest-1n-veth", told={})

    assert found
    assert (None, "", {}) == (found.change, found.ref, found.overrides)


def test_trigger_words_are_those_of_the_settings() -> None:
    words = {"csit-{testbed}-perftest": "perftest"}

    found = asked("csit-1n-veth-perftest mrr", **{"trigger.words": words})

    assert found
    assert {"tags": ("mrr",)} == found.overrides


def test_comment_starts_no_job_that_has_no_trigger_word() -> None:
    words = {"bisecttest-{testbed}": "perftest"}

    with pytest.raises(
        UsageError, match=r"no trigger word starts bisect on 1n-veth; add one to trigger\.words"
    ):
        asked("bisecttest-1n-veth mrr", "bisect", **{"trigger.words": words})


def test_lines_that_ask_for_the_same_job_select_what_any_of_them_selects() -> None:
    found = asked("perftest-1n-veth mrr !1c\nperftest-1n-veth pdr\nperftest-simulated ndr")
    assert found
    assert {"tags": ("mrrNOT1c", "pdr")} == found.overrides

    everything = asked("perftest-1n-veth mrr\nperftest-1n-veth")
    assert everything
    assert {} == everything.overrides


def test_lines_that_ask_for_two_jobs_are_refused() -> None:
    with pytest.raises(UsageError, match="are two jobs; write them in two comments"):
        asked("bisecttest-1n-veth abcdef1\nbisecttest-1n-veth abcdef2", "bisect")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("perftest-simulated mrr", "no line requests perftest on 1n-veth; write perftest-1n-veth, "),
        ("> perftest-1n-veth mrr", "no line requests perftest on 1n-veth"),
        ("perftest-1n-veth mrrAND", "has an operator without a tag next to it"),
        ("perftest-1n-veth #nightly", "no test list is named '#nightly'; there are none"),
        ("perftest-1n-veth -- --duration 61", "--duration should be 0.1 to 60 seconds"),
    ],
)
def test_what_is_no_request_of_the_job_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=rf"^GERRIT_EVENT_COMMENT_TEXT: .*{reason}"):
        asked(text)


@pytest.mark.parametrize(
    "text",
    ["perftest-1n-veth was green yesterday", "perftest-1n-veth: done", "```\nperftest-1n-veth mrr\n```"],
)
def test_sentence_that_begins_with_the_trigger_word_starts_nothing_and_fails_nothing(text: str) -> None:
    with pytest.raises(job_request.NoRequestError, match="is not a request") as raised:
        asked(text)

    assert EXIT_PASS == raised.value.exit_code


def test_wrong_line_for_another_testbed_is_somebody_elses() -> None:
    assert asked("perftest-simulated --no-such\nperftest-1n-veth mrr")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("GERRIT_CHANGE_NUMBER", "12; id"),
        ("GERRIT_CHANGE_NUMBER", "-1"),
        ("GERRIT_PATCHSET_REVISION", "HEAD"),
        ("GERRIT_REFSPEC", "+refs/heads/*:refs/heads/*"),
        ("GERRIT_REFSPEC", "--upload-pack=id"),
        ("GERRIT_PROJECT", "../../etc"),
        ("GERRIT_PROJECT", "a\nb"),
        ("GERRIT_BRANCH", "-x"),
    ],
)
def test_what_no_gerrit_tells_is_refused(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"^{name} is .*, which is not from Gerrit"):
        asked("perftest-1n-veth", told={**TOLD, name: value})
