from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from perftrend.model import Outcome, Verdict
from perftrend.report.table import passes, rows, sentence

MakeVerdict = Callable[..., Verdict]


def test_worst_comes_first_and_among_equals_the_largest_change(make_verdict: MakeVerdict) -> None:
    verdicts = [
        make_verdict("normal", Outcome.NORMAL, long_term_change=-0.5),
        make_verdict("better", Outcome.PROGRESSION),
        make_verdict("untrusted", Outcome.NOT_VALID),
        make_verdict("gone", Outcome.MISSING),
        make_verdict("broken", Outcome.FAILED),
        make_verdict("unknown", Outcome.REGRESSION, long_term_change=math.nan),
        make_verdict("slightly", Outcome.REGRESSION, long_term_change=-0.01),
        make_verdict("much", Outcome.REGRESSION, long_term_change=-0.3),
    ]

    assert ["much", "slightly", "unknown", "broken", "gone", "untrusted", "better", "normal"] == [
        row.test for row in rows(verdicts)
    ]


def test_names_with_numbers_are_sorted_as_numbers(make_verdict: MakeVerdict) -> None:
    names = ["128b-ip4", "1518b-ip4", "64b-ip4"]

    assert ["64b-ip4", "128b-ip4", "1518b-ip4"] == [row.test for row in rows(map(make_verdict, names))]


def test_sentence_counts_every_outcome(make_verdict: MakeVerdict, missing: Verdict) -> None:
    outcomes = [Outcome.REGRESSION] * 2 + [Outcome.PROGRESSION] + [Outcome.NORMAL] * 3 + [Outcome.FAILED]
    verdicts = [make_verdict(f"test-{i}", outcome) for i, outcome in enumerate(outcomes)]

    assert "2 regressions, 1 progression, 3 normal, 1 failed, 1 missing of 8 tests" == sentence(
        [*verdicts, missing]
    )


def test_sentence_tells_results_from_tests(make_verdict: MakeVerdict) -> None:
    verdicts = [make_verdict("one", Outcome.NORMAL, metric=metric) for metric in ("ndr", "pdr")]

    assert "2 normal of 2 results in 1 test" == sentence(verdicts)


def test_sentence_of_nothing() -> None:
    assert "No test was analysed" == sentence([])


@pytest.mark.parametrize(
    ("outcome", "passed"),
    [
        (Outcome.NORMAL, True),
        (Outcome.PROGRESSION, True),
        (Outcome.REGRESSION, False),
        (Outcome.NOT_VALID, False),
        (Outcome.FAILED, False),
        (Outcome.MISSING, False),
    ],
)
def test_job_passes_with_good_results_only(
    make_verdict: MakeVerdict, outcome: Outcome, *, passed: bool
) -> None:
    assert passed == passes([make_verdict("good", Outcome.NORMAL), make_verdict("other", outcome)])


def test_trends_share_the_decimals_that_the_smallest_needs(make_verdict: MakeVerdict) -> None:
    verdicts = [make_verdict("large", trend=14.25e6), make_verdict("small", trend=0.15342e6)]

    assert ["14.2500", "0.1534"] == [row.trend for row in rows(verdicts)]


def test_other_units_stand_with_their_number(make_verdict: MakeVerdict) -> None:
    (row,) = rows([make_verdict(unit="us", trend=12.3456)])

    assert "12.35 us" == row.trend


def test_what_does_not_exist_is_a_dash(missing: Verdict) -> None:
    (row,) = rows([missing])

    assert ("\N{EN DASH}",) * 3 == (row.trend, row.runs, row.change)
