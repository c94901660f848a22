"""Trigger words of a settings file: which can be used, and the errors of the others."""

from __future__ import annotations

import pytest

from perftrend.errors import SettingsError
from perftrend.trigger import CANCEL, DEFAULT_WORDS, JOBS, Trigger, parse, patterns_of, validate_words


def test_the_default_words_can_be_used() -> None:
    assert dict(DEFAULT_WORDS) == validate_words(DEFAULT_WORDS)


@pytest.mark.parametrize("starts", ["bisection", "bisection on 2n-clx"])
def test_former_name_of_a_job_starts_the_present_one(starts: str) -> None:
    pattern = "find" if " on " in starts else "find-{testbed}"
    words = validate_words({pattern: starts})

    (request,) = parse(f"{pattern.replace('{testbed}', '2n-clx')} 3ab5c9d", words=words)

    assert isinstance(request, Trigger)
    assert ("bisect", "2n-clx") == (request.job, request.testbed)


@pytest.mark.parametrize(
    "pattern",
    [
        "csit-{testbed}-perftest",
        "csit-vpp-report-iter-{testbed}-perftest",
        "gha-run csit-vpp-{testbed} perftest",
        "/perftest {testbed}",
        "@bot perf.test:{testbed}",
    ],
)
def test_words_of_other_projects_can_be_used(pattern: str) -> None:
    assert {pattern: "perftest"} == validate_words({pattern: "perftest"})


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (
            "perftest",
            "or its job should name the testbed, as in 'perftest on 2n-clx'",
        ),
        ("perftest-{testbed}-{testbed}", "it should contain {testbed} once"),
        ("perftest-{testbed}-{nic}", "only {testbed} may be in braces"),
        ("{testbed}", "it should consist of letters"),
        ("-{testbed}", "it should consist of letters"),
        (">perftest-{testbed}", "it should consist of letters"),
        (" perftest-{testbed}", "it should consist of letters"),
        ("perftest  {testbed}", "it should consist of letters"),
        ("perftest-{testbed}\n", "it should consist of letters"),
        ("pérftest-{testbed}", "it should consist of letters"),
        ("perftest.*-{testbed}", "it should consist of letters"),
        ("perftest{testbed}", "should be separated"),
        ("perf-{testbed}test", "should be separated"),
        ("a-{testbed}", "letters of its own"),
        ("1234-{testbed}", "letters of its own"),
        (f"{'perftest' * 10}-{{testbed}}", "at most 80 characters"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(SettingsError) as refused:
        validate_words({pattern: "perftest"})

    assert reason in str(refused.value)
    assert "write one such as 'perftest-{testbed}'" in str(refused.value)


def test_an_unknown_job_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="no job is named 'bisct'; did you mean 'bisect'"):
        validate_words({"bisecttest-{testbed}": "bisct"})


def test_a_word_without_a_testbed_names_it_beside_the_job() -> None:
    words = {"gha-run perftest": "perftest on 2n-clx", "perftest-{testbed}": "perftest"}

    assert words == validate_words(words)
    assert ["gha-run perftest", "perftest-{testbed}"] == patterns_of(words, "perftest", "2n-clx")
    assert ["perftest-{testbed}"] == patterns_of(words, "perftest", "3n-icx")


def test_a_word_that_names_a_testbed_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="it names a testbed in two ways"):
        validate_words({"perftest-{testbed}": "perftest on 2n-clx"})


def test_the_same_word_twice_is_refused() -> None:
    with pytest.raises(SettingsError, match="differ only in case"):
        validate_words({"perftest-{testbed}": "perftest", "Perftest-{testbed}": "trending"})


def test_no_words_are_refused() -> None:
    with pytest.raises(SettingsError, match="none configured"):
        validate_words({})


def test_every_default_job_is_one_that_can_be_started_or_ends_one() -> None:
    assert set(DEFAULT_WORDS.values()) < {*JOBS, CANCEL}
