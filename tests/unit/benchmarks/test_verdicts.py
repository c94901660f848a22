from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks import verdicts
from perftrend.analysis import Criteria
from perftrend.model import Outcome

STEADY = [10e6, 10.01e6, 9.99e6, 10.02e6, 9.98e6, 10e6, 10.01e6, 9.99e6]


@pytest.mark.parametrize(("rate", "expected"), [(10e6, Outcome.NORMAL), (5e6, Outcome.REGRESSION)])
def test_benchmark_judges_as_the_job_does(rate: float, expected: Outcome) -> None:
    assert expected is verdicts.outcome(np.array([*STEADY, rate]), Criteria())


def test_every_part_gives_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, value in {
        "NOISES": (0.01, 0.02),
        "SIZES": (2, 9),
        "LONG_SIZES": (61, 62),
        "NEW_RUNS": 2,
    }.items():
        monkeypatch.setattr(verdicts, name, value)

    assert 0 == verdicts.main(["--json", "--series", "3", "--traces", "2"])
    told = json.loads(capsys.readouterr().out)
    assert {"noise": 2, "long": 2, "price": 2, "delay": 5} == {part: len(rows) for part, rows in told.items()}
    assert [100, 100, 100] == told["price"][0]["drop of 30%"]
