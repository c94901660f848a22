"""Items of a testbed whose reference build is measured, too."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from perftrend.dashboard import AppContext
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate
from perftrend.dashboard.triage.views import item_detail
from perftrend.model import REFERENCE, Better, Result, Run, Status
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
