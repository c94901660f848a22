from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from perftrend.model import Change, Direction, Verdict
from perftrend.report.change_texts import courses
from perftrend.wording import NOTHING

MakeVerdict = Callable[..., Verdict]

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
