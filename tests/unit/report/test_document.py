from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

from perftrend import report
from perftrend.model import Change, Direction, Group, Outcome, Run, Verdict

MakeVerdict = Callable[..., Verdict]


def document(run: Run, *verdicts: Verdict, **options: Any) -> dict[str, Any]:
    text = report.as_json(verdicts, run=run, method="MDL", window=30, **options)
    content: dict[str, Any] = json.loads(text, parse_constant=refuse)
    return content


def refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")


def test_document_says_what_was_analysed_and_how(make_verdict: MakeVerdict, run: Run) -> None:
    content = document(run, make_verdict(), title="Nightly", notices=["1n-loopback was used instead"])

    assert "perftrend-report-1" == content["format"]
    assert ("Nightly", "MDL", 30) == (content["title"], content["method"], content["window"])
    assert ("1 regression of 1 test", False) == (content["sentence"], content["passed"])
    assert ("trending/6", "2026-03-07T02:00:00+00:00") == (content["run"]["name"], content["run"]["started"])
    assert ["1n-loopback was used instead"] == content["notices"]
    assert 1 == content["counts"]["regression"]
    assert 0 == content["counts"]["not valid"]


def test_document_holds_the_whole_history(make_verdict: MakeVerdict, run: Run) -> None:
    (test,) = document(run, make_verdict())["tests"]

    assert [10.1e6, 10.0e6, 9.9e6, 8.1e6, 8.0e6, 7.9e6] == test["values"]
    assert [None, None, 10e6, 10e6, 9.5e6, 9.2e6] == test["trimmed_average"]
    assert {"start": 3, "stop": 6, "mean": 8e6, "stdev": 0.1e6, "bits": 40.0} == test["groups"][1]
    assert [3] == [change["position"] for change in test["changes"]]
    assert [3] == test["outliers"]


def test_value_that_cannot_be_trusted_keeps_its_reason(make_verdict: MakeVerdict, run: Run) -> None:
    verdict = make_verdict(outcome=Outcome.NOT_VALID, invalid={5: (7e6, "generator too slow")})

    (test,) = document(run, verdict)["tests"]

    assert test["values"][5] is None
    assert [{"position": 5, "value": 7e6, "reason": "generator too slow"}] == test["not_valid"]


def test_runs_are_written_once(make_verdict: MakeVerdict, run: Run) -> None:
    content = document(run, make_verdict("one"), make_verdict("two"))

    assert 6 == len(content["runs"])
    assert [[0, 1, 2, 3, 4, 5]] * 2 == [test["runs"] for test in content["tests"]]


def test_test_that_never_ran_is_there_by_name(run: Run, missing: Verdict) -> None:
    (test,) = document(run, missing)["tests"]

    assert "64b-never" == test["parameters"]["test"]
    assert (None, [], []) == (test["trend"], test["values"], test["moving_median"])


def test_times_are_in_utc_wherever_the_run_was_started(run: Run) -> None:
    east = timezone(timedelta(hours=2))

    content = document(replace(run, started=datetime(2026, 3, 7, 1, 30, tzinfo=east)))

    assert "2026-03-06T23:30:00+00:00" == content["run"]["started"]


def test_positions_from_numpy_are_numbers(make_verdict: MakeVerdict, run: Run) -> None:
    third = np.int64(3)
    verdict = make_verdict(
        groups=(Group(third, third + 3, np.float64(8e6), np.float64(0), np.float64("inf")),),
        changes=(Change(third, 10e6, 8e6, Direction.REGRESSION),),
    )

    (test,) = document(run, replace(verdict, runs=third))["tests"]

    assert [{"start": 3, "stop": 6, "mean": 8e6, "stdev": 0.0, "bits": None}] == test["groups"]
    assert (3, 3) == (test["changes"][0]["position"], test["trend_runs"])


def test_simulated_run_says_so(run: Run) -> None:
    assert document(replace(run, simulated=True))["run"]["simulated"] is True


def test_change_carries_what_is_known_of_it(make_verdict: MakeVerdict, run: Run) -> None:
    change = Change(
        3, 10e6, 8e6, Direction.REGRESSION, confidence=0.99, effect_size=-4.5, last_before=1, first_after=3
    )
    hint = Change(5, 8e6, 7e6, Direction.REGRESSION, pattern="small", drift=True)

    (test,) = document(run, make_verdict(changes=(change,), suspected=hint))["tests"]

    assert {"confidence": 0.99, "effect_size": -4.5, "last_before": 1, "first_after": 3, "pattern": None} == {
        name: test["changes"][0][name]
        for name in ("confidence", "effect_size", "last_before", "first_after", "pattern")
    }
    assert (5, "small", True, None) == tuple(
        test["suspected"][name] for name in ("position", "pattern", "drift", "confidence")
    )
    assert [] == test["vanished"]


def test_owners_stand_beside_their_test(make_verdict: MakeVerdict, run: Run) -> None:
    (test,) = document(run, make_verdict(owners=("ip",), mail=("ip@example.org",)))["tests"]

    assert (["ip"], ["ip@example.org"]) == (test["owners"], test["mail"])
