"""Nights that come one after the other, and an alert that looks at them."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import EvaluationResult, evaluate
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Alert, Item, ItemSelection, Rules

FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
TESTBED = "2n-clx"
MEASURED = 30
STEPS = {"a": 20, "b": 20}
"""From which night on the tests are 10 % slower."""


def commit(number: int) -> str:
    return f"{number:040x}"


def key(test: str) -> TraceKey:
    return TraceKey.of(testbed=TESTBED, test=test, metric="mrr")


@dataclass
class Nights:
    """Measures one night after the other."""

    store: Store
    count: int = 0
    factors: Callable[[str, int], float | None] = lambda test, night: (
        0.9 if night >= STEPS.get(test, 999) else 1.0
    )
    """From a test and a night to the rate, 1.0 as usual; None: no result."""
    tests: Sequence[str] = ("a", "b", "c")
    versions: Callable[[int], dict[str, str]] = lambda night: {"device": commit(night)}
    noise: random.Random = field(default_factory=lambda: random.Random(3))  # noqa: S311 - noise

    @property
    def now(self) -> datetime:
        """An hour after the newest run."""
        return FIRST + timedelta(days=self.count - 1, hours=2)

    def measure(self, nights: int) -> None:
        for _ in range(nights):
            started = FIRST + timedelta(days=self.count)
            run = Run(
                TESTBED, "nightly", self.count + 1, started, started + timedelta(hours=1),
                self.versions(self.count),
            )  # fmt: skip
            results = []
            for test in self.tests:
                factor = self.factors(test, self.count)
                value = 1e7 * self.noise.gauss(1.0, 0.003)
                if factor is not None:
                    samples = (value * factor,)
                    results.append(Result(key(test), "pps", Better.HIGHER, Status.PASS, samples, samples[0]))
            self.store.add(run, results)
            self.count += 1

    def evaluate(self) -> EvaluationResult:
        return evaluate(self.store, Catalog(self.store), TESTBED, self.now)

    def items(self) -> list[Item]:
        return self.store.alerts.items.select(ItemSelection(), limit=100)[0]


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Measure thirty nights once; every test gets a copy."""
    place = tmp_path_factory.mktemp("nights") / "store.sqlite"
    with Store.open(place) as store:
        Nights(store).measure(MEASURED)
    return place


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give an empty store; in a test that requests ``nights``, one with thirty of them."""
    place = tmp_path / "store.sqlite"
    if "nights" in request.fixturenames:
        shutil.copy(request.getfixturevalue("measured"), place)
    with Store.open(place) as opened:
        yield opened


@pytest.fixture
def nights(store: Store) -> Nights:
    """Give thirty nights, two of three tests 10 % slower from the 21st on."""
    return Nights(store, MEASURED)


@pytest.fixture
def alert(store: Store) -> Alert:
    """Make an alert on all traces, of 3 %."""
    rules = Rules("all", "", change=0.03, owner="ann", action="mail", target="ann@example.org")
    return store.alerts.add(rules, user="ann")
