from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perftrend.model import MARKED, Better, Outcome, Run, Series, Status, TraceKey, Verdict
from perftrend.report.mails.causes import WITHOUT_RESULT, causes, is_new, normalise_reason
from perftrend.report.mails.content import Links, parts

MakeVerdict = Callable[..., Verdict]

MESSAGES = (
    "no carrier on eth1",
    "no carrier on eth2",
    "connection to 10.0.0.1:22 refused",
    "connection to 10.0.0.2:2222 refused",
    "/opt/a/b.log is missing",
    "/var/x.log is missing",
    "",
)


def verdict_of(test: str, outcome: Outcome, reason: str, metric: str = "mrr") -> Verdict:
    key = TraceKey.of(test=test, suite="ip4", metric=metric, testbed="2n-clx")
    return Verdict(Series(key, "pps", Better.HIGHER, (), np.empty(0)), outcome, reason)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Only 17823451.0 of 29761904 packets", "Only 1.5e6 of 3 packets"),
        ("no route to 10.0.0.1", "no route to 192.168.255.254"),
        ("no route to fe80::1ff:fe23:4567:890a", "no route to 2001:db8::1"),
        ("bad address 3c:fd:fe:a8:ab:98", "bad address 00:00:00:00:00:01"),
        ("device 0000:18:00.0 is bound", "device 0000:3b:00.1 is bound"),
        ("cannot open /tmp/vpp/api.sock", "cannot open /run/x"),
        ("GET https://ci.example.org/job/1 failed", "GET http://other/2 failed"),
        ("since 2026-03-01 02:00:01.5", "since 20190411 08:26:46.967"),
        ("since 2026-03-01T02:00:01.123456Z", "since 2026-12-31T23:59:59+01:00"),
        ("killed after 0:00:12", "killed after 12:34:56.789"),
        ("commit 1f3d5e7a9 is unknown", "commit 0123456789abcdef0123 is unknown"),
        ("pointer 0x7ffdeadbeef", "pointer 0x0"),
        ("session 123e4567-e89b-12d3-a456-426614174000", "session 00000000-0000-0000-0000-000000000000"),
        ("rates [1.0, 2.0, 3.0]", "rates [4.0, 5.0]"),
        ("Setup failed:\nno carrier", "setup failed:\r\n  no carrier"),
        ("loss -0.5", "loss 3"),
    ],
)
def test_what_differs_from_test_to_test_does_not_matter(one: str, other: str) -> None:
    first, second = (verdict_of("64b-1c-mrr", Outcome.FAILED, reason) for reason in (one, other))

    assert normalise_reason(first) == normalise_reason(second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("no carrier", "no memory"),
        ("connection refused by 10.0.0.1", "connection reset by 10.0.0.1"),
        ("Suite::Setup failed", "Suite failed"),
        ("read/write failed", "read/erase failed"),
    ],
)
def test_different_causes_stay_apart(one: str, other: str) -> None:
    first, second = (verdict_of("64b-1c-mrr", Outcome.FAILED, reason) for reason in (one, other))

    assert normalise_reason(first) != normalise_reason(second)


def test_own_name_of_a_test_does_not_matter() -> None:
    one, other = (
        verdict_of(name, Outcome.FAILED, f"{name} timed out") for name in ("64b-acl-mrr", "9000b-ip4-ndr")
    )

    assert normalise_reason(one) == normalise_reason(other)


def test_hundreds_of_tests_with_one_cause_are_one_group(run: Run) -> None:
    verdicts = [
        verdict_of(f"{size}b-ip4-mrr", Outcome.FAILED, f"Setup failed: no carrier on eth{size}")
        for size in range(200, 0, -1)
    ]

    (cause,) = causes(verdicts, run=run)

    assert (200, ("1b-ip4-mrr", "2b-ip4-mrr", "3b-ip4-mrr"), 197) == (cause.count, cause.names, cause.others)
    assert "Setup failed: no carrier on eth1" == cause.message


def test_largest_group_comes_first(run: Run) -> None:
    reasons = ["rare", "frequent", "frequent", "frequent", "sometimes", "sometimes"]
    verdicts = [verdict_of(f"test-{i}", Outcome.FAILED, reason) for i, reason in enumerate(reasons)]

    assert ["frequent", "sometimes", "rare"] == [cause.message for cause in causes(verdicts, run=run)]


def test_metrics_of_one_test_count_once(run: Run) -> None:
    verdicts = [verdict_of("64b-ndrpdr", Outcome.FAILED, "no carrier", metric) for metric in ("ndr", "pdr")]

    assert [1] == [cause.count for cause in causes(verdicts, run=run)]


SOME = st.lists(
    st.builds(
        verdict_of,
        st.sampled_from([f"{size}b-mrr" for size in (64, 128, 1518)]),
        st.sampled_from([*Outcome]),
        st.sampled_from(MESSAGES) | st.text(max_size=20),
        st.sampled_from(["mrr", "ndr"]),
    ),
    max_size=12,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SOME, st.randoms())
def test_order_of_verdicts_does_not_matter(run: Run, verdicts: list[Verdict], order: random.Random) -> None:
    shuffled = order.sample(verdicts, len(verdicts))

    assert causes(verdicts, run=run) == causes(shuffled, run=run)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(SOME)
def test_every_test_without_result_is_in_a_group(run: Run, verdicts: list[Verdict]) -> None:
    told = {
        (each.outcome, normalise_reason(each), each.series.key["test"])
        for each in verdicts
        if each.outcome in WITHOUT_RESULT
    }

    assert len(told) == sum(cause.count for cause in causes(verdicts, run=run))


def history(verdict: Verdict, statuses: Sequence[Status]) -> Verdict:
    series = verdict.series
    results = [
        replace(result, status=status) for result, status in zip(series.results, statuses, strict=True)
    ]
    return replace(verdict, series=replace(series, results=tuple(results)))


@pytest.mark.parametrize(
    ("failed", "new_runs", "expected"),
    [(1, 1, True), (2, 1, False), (2, 2, True), (6, 1, False), (6, 6, True)],
)
def test_failure_is_new_until_a_mail_has_told_of_it(
    make_verdict: MakeVerdict, run: Run, failed: int, new_runs: int, expected: bool
) -> None:
    statuses = [Status.PASS] * (6 - failed) + [Status.FAIL] * failed
    verdict = history(make_verdict(outcome=Outcome.FAILED), statuses)

    assert expected is is_new(verdict, run, new_runs)


@pytest.mark.parametrize(
    ("invalid", "groups"), [("the generator was behind", 1), (f"{MARKED}ann: a fan failed", 0)]
)
def test_result_that_a_person_marked_is_no_news(
    make_verdict: MakeVerdict, run: Run, invalid: str, groups: int
) -> None:
    verdict = make_verdict(outcome=Outcome.NOT_VALID)
    *before, last = verdict.series.results
    results = (*before, replace(last, invalid=invalid))
    marked = replace(verdict, series=replace(verdict.series, results=results))

    assert groups == len(causes([marked], run=run))
    assert groups == len(parts([marked], run=run, links=Links()))


@pytest.mark.parametrize(("build", "expected"), [(7, True), (8, False)])
def test_missing_test_is_new_in_the_first_run_without_it(
    make_verdict: MakeVerdict, run: Run, build: int, expected: bool
) -> None:
    verdict = make_verdict(outcome=Outcome.MISSING)

    assert expected is is_new(verdict, replace(run, build=build), new_runs=1)


def test_long_message_is_grouped_in_reasonable_time(run: Run) -> None:
    reason = "1:" * 500_000 + "/" * 500_000

    (cause,) = causes([verdict_of("64b-mrr", Outcome.FAILED, reason)], run=run)

    assert 1 == cause.count
