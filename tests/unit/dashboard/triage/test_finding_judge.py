"""Findings that are those of the testbed, or of cycles that have only moved, and the pages of their items."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from perftrend.dashboard import AppContext
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.dashboard.triage.views import item_detail
from perftrend.model import REFERENCE, Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import Alert, Item
from tests.unit.dashboard.triage.conftest import FIRST, MEASURED, STEPS, TESTBED, Nights, commit, key


def measure_reference(store: Store, *, slower_from: int, nights: int = MEASURED) -> None:
    """Measure the reference build an hour before the product, 10 % slower from a night on."""
    noise = random.Random(5)  # noqa: S311 - noise
    for night in range(nights):
        started = FIRST + timedelta(days=night, hours=-1)
        run = Run(
            TESTBED, "reference", night + 1, started, started + timedelta(minutes=30),
            {"device": commit(999)}, experiment=REFERENCE,
        )  # fmt: skip
        factor = 0.9 if night >= slower_from else 1.0
        values = {test: 1e7 * factor * noise.gauss(1.0, 0.003) for test in ("r", "s", "t")}
        store.add(
            run,
            [
                Result(key(test).of_experiment(REFERENCE), "pps", Better.HIGHER, Status.PASS, (value,), value)
                for test, value in values.items()
            ],
        )


def evaluated(nights: Nights, lab: str = "lab@example.org") -> list[Item]:
    evaluate(nights.store, Catalog(nights.store), TESTBED, nights.now, lab=lab)
    return nights.items()


@pytest.mark.parametrize(
    ("slower_from", "kind", "owner"), [(20, "testbed", "lab@example.org"), (999, "regression", "ann")]
)
def test_what_the_reference_build_does_as_well_belongs_to_the_lab(
    nights: Nights, alert: Alert, slower_from: int, kind: str, owner: str
) -> None:
    measure_reference(nights.store, slower_from=slower_from)

    (item,) = evaluated(nights)

    assert (kind, owner, len(STEPS)) == (item.kind, item.owner, item.traces)


def test_item_of_a_testbed_blames_no_commit(nights: Nights, alert: Alert, settings: Settings) -> None:
    measure_reference(nights.store, slower_from=20)
    (item,) = evaluated(nights)

    detail = item_detail(AppContext.of(settings, nights.store), item, may_edit=True)

    assert detail.bisect is None
    assert [commit(20)] == [each.commit for each in detail.commits]


def test_evidence_that_arrives_later_replaces_the_regression(nights: Nights, alert: Alert) -> None:
    assert ["regression"] == [each.kind for each in evaluated(nights)]

    measure_reference(nights.store, slower_from=20)
    items = {each.kind: each.status for each in evaluated(nights)}

    assert {"testbed": "new", "regression": "closed"} == items


def test_cycles_that_have_only_moved_are_no_item(store: Store, alert: Alert, settings: Settings) -> None:
    noise = random.Random(7)  # noqa: S311 - noise
    for night in range(MEASURED):
        started = FIRST + timedelta(days=night)
        is_late = night >= STEPS["a"]
        cycles = {
            ("moved", "lookup"): 40.0 if is_late else 60.0,
            ("moved", "rewrite"): 60.0 if is_late else 40.0,
            ("slower", "lookup"): 60.0,
            ("slower", "rewrite"): 60.0 if is_late else 40.0,
        }
        results = []
        for (test, part), usual in cycles.items():
            trace = TraceKey.of(testbed=TESTBED, test=test, metric=f"cycles_{part}")
            value = usual * noise.gauss(1.0, 0.003)
            results.append(Result(trace, "cycles", Better.LOWER, Status.PASS, (value,), value))
        rate = (8e6 if is_late else 1e7) * noise.gauss(1.0, 0.003)
        results.append(Result(key("slower"), "pps", Better.HIGHER, Status.PASS, (rate,), rate))
        store.add(Run(TESTBED, "nightly", night + 1, started, started, {"device": commit(night)}), results)

    (item,) = evaluated(Nights(store, MEASURED))

    traces = {each.hash: each.key for each in Catalog(store).now().stored}
    assert ("regression", 2, "slower") == (item.kind, item.traces, traces[item.trace]["test"])
    (text,) = item_detail(AppContext.of(settings, store), item, may_edit=True).cycles
    assert text.startswith("rewrite takes 2")
