"""What a run of the suites leaves in the store and in the report."""

from __future__ import annotations

from typing import Any

import pytest

from perftrend.model import REFERENCE
from perftrend.store import Store


def outcomes(bench: Any) -> dict[str, str]:
    """Return what the report says of each rate."""
    return {test["parameters"]["metric"]: test["outcome"] for test in bench.report()["tests"]}


@pytest.mark.parametrize(
    ("timeout_s", "exit_code", "outcome"),
    [("720", 0, "normal"), ("15", 4, "failed")],
)
def test_further_pdr_has_a_trace_whether_the_search_ends_in_time_or_not(
    timeout_s: str, exit_code: int, outcome: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_SEARCH_LOSS_RATIOS", "0.1")
    monkeypatch.setenv("PERFTREND_SEARCH_TIMEOUT_S", timeout_s)

    ended = bench.trending("--tags", "ndrpdrAND64bAND1cANDethip4-ip4base")

    assert exit_code == ended.exit_code, ended.err
    assert dict.fromkeys(["ndr", "pdr", "pdr_0.1"], outcome) == outcomes(bench)


def test_reference_build_has_traces_and_a_job_of_its_own(bench: Any) -> None:
    ended = bench.trending("--reference", "--tags", "mrrAND64bAND1cANDethip4-ip4base")

    assert 0 == ended.exit_code, ended.err
    with Store.open("perftrend.sqlite") as store:
        (run,) = store.runs("simulated")
    assert ("perftrend-reference-simulated", REFERENCE) == (run.job, run.experiment)
    assert ["reference"] == [test["parameters"]["experiment"] for test in bench.report()["tests"]]
    assert "this is an experiment" not in ended.err
