from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from perftrend.model import Change, Direction, Outcome, Verdict
from perftrend.report.texts import courses, passes, rows, sentence
from perftrend.text import NOTHING

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


DROP = Change(
    3,
    10e6,
    8e6,
    Direction.REGRESSION,
    confidence=0.9987,
    effect_size=-4.25,
    last_before=1,
    first_after=3,
    pattern="ordinary",
)


def test_a_change_is_told_with_what_is_known_of_it(make_verdict: MakeVerdict) -> None:
    (told,) = courses(make_verdict(changes=(DROP,)))

    assert 4 == told.run.build
    assert ("-20.0 %", "regression", "ordinary") == (told.step, told.kind, told.pattern)
    assert ("99.87 %", "-4.2 \N{GREEK SMALL LETTER SIGMA}", "2 and 4") == (
        told.confidence,
        told.effect,
        told.place,
    )


def test_nothing_known_is_shown_as_nothing(make_verdict: MakeVerdict) -> None:
    (told,) = courses(make_verdict(changes=(Change(3, 0.0, 8e6, Direction.PROGRESSION),)))

    assert [NOTHING] * 5 == [told.step, told.pattern, told.confidence, told.effect, told.place]


@pytest.mark.parametrize(
    ("confidence", "text"),
    [(1.0, "> 99.99 %"), (0.99995, "> 99.99 %"), (0.5, "50.00 %"), (math.nan, NOTHING)],
)
def test_no_change_is_told_as_perfectly_certain(
    confidence: float, text: str, make_verdict: MakeVerdict
) -> None:
    change = Change(3, 10e6, 8e6, Direction.REGRESSION, confidence=confidence)

    assert [text] == [told.confidence for told in courses(make_verdict(changes=(change,)))]


def test_suspected_and_vanished_changes_are_told_newest_first(make_verdict: MakeVerdict) -> None:
    gone = Change(1, 10e6, 11e6, Direction.PROGRESSION, pattern="vanished")
    suspected = Change(5, 8e6, 7e6, Direction.REGRESSION, pattern="small", drift=True)

    told = courses(make_verdict(changes=(DROP,), vanished=(gone,), suspected=suspected))

    assert [(6, "suspected"), (4, "ordinary"), (2, "vanished")] == [
        (each.run.build, each.pattern) for each in told
    ]
    assert "regression, slow drift" == told[0].kind
