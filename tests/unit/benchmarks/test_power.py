from __future__ import annotations

import json
import math
from itertools import pairwise

import numpy as np
import pytest

from benchmarks.power import __main__ as power
from benchmarks.power.accuracy import Accuracy, matches
from benchmarks.power.curve import comparisons
from benchmarks.power.delay import (
    HISTORY_RUNS,
    NEVER,
    RATES,
    Alarms,
    Cell,
    apply_drop,
    count_alarms,
    first_reports,
    first_sightings,
    sequential_name,
)
from benchmarks.power.series import LEVEL_PPS, SCENARIOS, generate_trace
from perftrend.analysis.sequential import Vigilance
from perftrend.model import Samples


def test_reported_change_is_used_for_one_real_change_only() -> None:
    assert 1 == matches([10], [9, 11])
    assert 2 == matches([9, 12], [10, 11])
    assert 0 == matches([13], [10])


def test_figures_of_a_detector_that_found_two_of_four_and_reported_one_wrong() -> None:
    found = Accuracy("s", "d", found=2, reported=3, real=4)

    assert (found.precision, found.recall) == pytest.approx((2 / 3, 1 / 2))
    assert found.f1 == pytest.approx(4 / 7)


@pytest.mark.parametrize("name", SCENARIOS)
def test_labels_are_where_the_level_moves(name: str) -> None:
    samples, starts = generate_trace(SCENARIOS[name], np.random.default_rng(0), 180)

    assert 180 == samples.size
    assert starts == sorted(starts)
    assert all(20 <= later - earlier <= 60 for earlier, later in zip([0, *starts], starts, strict=False))
    before, after = samples[: starts[0]], samples[starts[0] : starts[0] + 20]
    assert abs(np.median(after) / np.median(before) - 1) > 0.01


def test_fall_within_the_new_runs_is_a_report_and_a_rise_is_none() -> None:
    def seer(samples: Samples) -> list[tuple[int, int]]:
        sign = -1 if samples.size >= HISTORY_RUNS + 7 else 1
        return [(20, -1), (HISTORY_RUNS, sign)]

    assert 7 == first_reports(np.zeros(HISTORY_RUNS + 20), seer)
    assert NEVER == first_reports(np.zeros(HISTORY_RUNS + 6), seer)


def test_rarer_alarms_come_no_earlier() -> None:
    noise = np.random.default_rng(3).normal(0.0, 0.01, HISTORY_RUNS + 60)
    samples = apply_drop(LEVEL_PPS * (1 + noise), 0.01)
    reports = first_sightings(samples, [Vigilance(false_alarms_per_1000=rate) for rate in RATES])

    assert reports == sorted(reports, reverse=True)
    assert reports[-1] < math.inf


def test_alarms_are_counted_until_the_first_one_of_each_trace() -> None:
    found = count_alarms("d", 0.01, [5.0, NEVER, 15.0], new_runs=20)

    assert (2, 40) == (found.alarms, found.exposure)
    assert found.per_1000 == pytest.approx(50.0)


def test_peer_is_compared_with_the_setting_that_alarms_no_more() -> None:
    """The peer has 2 alarms in 1,000; the two lowest rates have 1 and 2, the others more."""
    names = [sequential_name(rate) for rate in RATES]
    counts = [1, 2, *[3] * (len(RATES) - 2)]
    alarms = [Alarms(name, 0.01, count, 1000) for name, count in zip(names, counts, strict=True)]
    cells = [Cell(name, 0.01, 0.02, (float(20 - index),)) for index, name in enumerate(names[:15])]
    cells += [Cell(name, 0.01, 0.02, (1.0,)) for name in names[15:]]
    (found,) = comparisons(
        [*alarms, Alarms("peer", 0.01, 2, 1000)], [*cells, Cell("peer", 0.01, 0.02, (30.0,))], new_runs=50
    )

    assert (names[1], 19.0, 30.0, "fewer") == (found.own, found.own_runs, found.peer_runs, found.verdict)


def test_report_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--json", "--only", "accuracy", "noises", "suspicion", "--series", "1", "--size", "80"]
    sizes = ["--traces", "2", "--quiet-runs", "3"]

    assert 0 == power.main([*options, *sizes, "--detectors", "perftrend sequential"])
    report = json.loads(capsys.readouterr().out)
    assert set(SCENARIOS) == {each["scenario"] for each in report["accuracy"]}
    # Six traces of three quiet runs each.
    assert (22, 18) == (len(report["noises"]), report["noises"]["normal"]["exposure"])
    assert {0.0, 0.1} == {each["drop"] for each in report["suspicion"]}


def test_groups_of_an_uneven_trace_differ_in_noise() -> None:
    samples, starts = generate_trace(SCENARIOS["uneven"], np.random.default_rng(1), 180)
    spreads = [
        float(np.diff(samples[start:stop]).std()) for start, stop in pairwise([0, *starts, samples.size])
    ]

    assert max(spreads) > 3 * min(spreads)
