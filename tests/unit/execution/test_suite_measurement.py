"""What the suites give for a build: names, values, reasons, and a folder that is whole or not there."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.builds import Builds, BuiltCommit
from perftrend.builds.profile import load
from perftrend.clients.git import Repository
from perftrend.errors import ArchiveError, TestbedError
from perftrend.execution.build_measurement import (
    RECORD,
    BuildMeasurements,
    NumbersCheck,
    Suites,
    classify_results,
    measure_once,
    names_of,
)
from perftrend.execution.robot import LockReference
from perftrend.measure.lock import LockedPlace
from perftrend.model import Better, BuildMeasurement, MetricSamples, Result, Status, TraceKey
from perftrend.settings import Settings

NOW = datetime(2026, 3, 2, 18, tzinfo=UTC)
MEASURED = BuildMeasurement(
    "a" * 40, NOW, NOW, {"mrr": MetricSamples((1.5, 2.0))}, {"ndr": "died"}, "parent/1"
)


def key(test: str, metric: str = "mrr", suite: str = "ip4") -> TraceKey:
    return TraceKey.of(testbed="simulated", test=test, suite=suite, metric=metric)


def result(test: str, **others: object) -> Result:
    usual = Result(key(test), "pps", Better.HIGHER, Status.PASS, (1.0, 3.0), 2.0)
    return replace(usual, **others)  # type: ignore[arg-type]


# ---- names


def test_test_is_called_by_its_name() -> None:
    assert {key("64b-mrr"): "64b-mrr"} == names_of([key("64b-mrr")])


def test_of_a_search_for_both_rates_pdr_is_looked_at() -> None:
    """Source: "Bisecting", section Bisect jobs."""
    searched = [key("64b-ndrpdr", metric) for metric in ("ndr", "pdr", "pdr_0.01", "latency_50")]
    keys = [*searched, key("64b-ndr", "ndr")]

    assert {key("64b-ndrpdr", "pdr"): "64b-ndrpdr", key("64b-ndr", "ndr"): "64b-ndr"} == names_of(keys)


def test_several_metrics_stand_behind_the_name() -> None:
    keys = [key("reconf", "reconf_packets"), key("reconf", "reconf_time")]

    assert ["reconf reconf_packets", "reconf reconf_time"] == list(names_of(keys).values())


def test_suite_stands_before_a_name_that_two_suites_have() -> None:
    keys = [key("64b-mrr", suite="ip4"), key("64b-mrr", suite="l2"), key("other", suite="l2")]

    assert ["ip4.64b-mrr", "l2.64b-mrr", "other"] == list(names_of(keys).values())


@given(
    st.sets(
        st.tuples(
            st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from(["mrr", "ndr", "pdr", "soak"])
        )
    )
)
def test_no_two_traces_have_one_name(parts: set[tuple[str, str, str]]) -> None:
    named = names_of([key(test, metric, suite) for suite, test, metric in parts])

    assert len(named) == len(set(named.values()))
    assert sorted(named.values()) == list(named.values())


# ---- values and reasons


@pytest.mark.parametrize(
    ("given_result", "reason"),
    [
        (result("t", status=Status.FAIL, message="one\n\ntwo\n"), "one\ntwo"),
        (result("t", status=Status.FAIL, message=""), "the test ended as fail"),
        (result("t", status=Status.SKIP, message="no NIC"), "no NIC"),
        (result("t", invalid="the generator was late"), "not valid: the generator was late"),
        (result("t", samples=(), value=float("nan")), "not valid: it measured nothing"),
        (result("other"), "the output has no result of it"),
    ],
)
def test_result_without_a_value_says_why(given_result: Result, reason: str) -> None:
    assert ({}, {"name": reason}) == classify_results([given_result], {key("t"): "name"})


def test_value_is_taken_with_its_unit() -> None:
    told = result("t", unit="cps", better=Better.LOWER)

    assert ({"name": MetricSamples((1.0, 3.0), "cps", Better.LOWER)}, {}) == classify_results(
        [told], {key("t"): "name"}
    )


def test_long_message_is_told_by_its_end() -> None:
    long = result("t", status=Status.FAIL, message="\n".join(f"line {number}" for number in range(100)))

    _, failed = classify_results([long], {key("t"): "name"})

    assert "line 95\nline 96\nline 97\nline 98\nline 99" == failed["name"]


def test_what_the_time_out_cut_off_is_not_the_fault_of_the_build() -> None:
    results = [result("t"), result("u", status=Status.FAIL, message="Execution terminated by signal")]

    values, failed = classify_results(results, {key("t"): "t", key("u"): "u"}, ended_after_s=60)

    assert ["t"] == list(values)
    assert {"u": "not valid: the suites were ended after 60 s"} == failed


def test_measurement_is_made_once(tmp_path: Path) -> None:
    calls = []

    def measure(folder: Path) -> BuildMeasurement:
        calls.append(folder)
        (folder / "output.xml").write_text("<robot/>")
        return MEASURED

    target = tmp_path / "parent" / "1"

    assert [MEASURED, MEASURED] == [measure_once(target, measure) for _ in range(2)]
    assert 1 == len(calls)
    assert {"output.xml", RECORD} == {entry.name for entry in target.iterdir()}


def test_measurement_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def broken(folder: Path) -> BuildMeasurement:
        (folder / "output.xml").write_text("<robot>")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measure_once(tmp_path / "parent" / "1", broken)

    assert [] == list((tmp_path / "parent").iterdir())


def test_what_a_kill_left_is_removed(tmp_path: Path) -> None:
    left = tmp_path / "parent" / ".1.unfinished"
    left.mkdir(parents=True)
    (left / "output.xml").write_text("<robot>")

    measure_once(tmp_path / "parent" / "1", lambda _: MEASURED)

    assert ["1"] == [entry.name for entry in (tmp_path / "parent").iterdir()]


@pytest.mark.parametrize("text", ["", "{}", '{"commit": 1}'])
def test_folder_that_does_not_tell_what_was_found_is_refused(text: str, tmp_path: Path) -> None:
    target = tmp_path / "1"
    target.mkdir()
    (target / RECORD).write_text(text)

    with pytest.raises(ArchiveError, match=r"remove .* to measure it again"):
        measure_once(target, lambda _: MEASURED)


def test_measurement_is_discarded_if_the_lock_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tests fail if the testbed is lost, and the build is not the reason."""
    checks = iter(["held", "lost"])

    def verify() -> None:
        if next(checks) == "lost":
            raise TestbedError("the lock is lost")

    monkeypatch.setattr(Suites, "measure", lambda *_: MEASURED)
    held = LockReference("lock", LockedPlace(0), verify)
    suites = Suites(Settings(), tmp_path, "simulated", [], held, {})
    built = BuiltCommit(MEASURED.commit, tmp_path, {}, took_s=0.0, was_cached=False)
    profile = load("embedded-router")
    product = Builds(profile, Repository.local(tmp_path, timeout_s=1), tmp_path / "builds")
    testbed = BuildMeasurements(product, suites, tmp_path / "measured", NumbersCheck("", lambda _: built))

    with pytest.raises(TestbedError, match="the lock is lost"):
        testbed.measure(built, "parent/1")

    assert [] == list((tmp_path / "measured" / "parent").iterdir())


def test_options_of_a_person_outweigh_those_of_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []

    def caught(settings: Settings, folder: Path, **_: object) -> bool:
        used.append(settings.device_options)
        raise TestbedError("enough")

    monkeypatch.setattr("perftrend.execution.build_measurement.run_suites", caught)
    settings = Settings(device_options={"acl_rules": "20"})
    suites = Suites(settings, tmp_path, "simulated", ["DRV_X"], LockReference("lock", LockedPlace(0)), {})

    with pytest.raises(TestbedError, match="enough"):
        suites.measure("a" * 40, {"acl_rules": "10", "program": "router.pyz"}, tmp_path)

    assert [{"acl_rules": "20", "program": "router.pyz"}] == used
