"""The store of ``--example``: a new one with a year of simulated nights.

One product is measured on the three testbeds of a laboratory, and no packet is sent. The same seed and the
same last day give the same nights. :data:`EVENTS` and the constants below it list what happens in the year,
so the expected findings are known.
"""

from __future__ import annotations

import hashlib
import math
import re
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from itertools import chain, product, zip_longest
from pathlib import Path

import numpy as np

from perftrend.analysis import evaluate_all
from perftrend.analysis.verdict import previous_traces
from perftrend.bisect.simulator import SimulatedNoise
from perftrend.dashboard import AppContext
from perftrend.dashboard.background import run_in_background
from perftrend.errors import UsageError
from perftrend.listener.supervisor import lock_folder
from perftrend.model import Better, Result, Run, Samples, Status, TraceKey, Verdict
from perftrend.report.run_judgement import criteria_of
from perftrend.store import Store
from perftrend.store.alerts import Rules
from perftrend.store.verdicts import RunVerdict

DAYS = 365
JUDGED_RUNS = 14
"""Number of the newest runs of each testbed that are analysed."""
SEED = 1
LINK_PPS = {"64B": 148.8e6, "78B": 127.6e6, "IMIX": 33.4e6, "1518B": 8.13e6}
"""Packet rate of one direction of a 100 Gb/s link; trials send in both."""


@dataclass(frozen=True, slots=True)
class ExampleTestbed:
    """A testbed of the laboratory, and when it measures."""

    # Otherwise, pytest would collect a class of this name.
    __test__ = False

    name: str
    drivers: tuple[str, ...]
    speed: float
    """Relative to the first one."""
    cores: tuple[str, ...] = ("1C", "2C", "4C")
    away: range = range(0)
    """Days without a run."""
    wander: float = 0.0
    """Standard deviation of its random drift in a month, in per cent."""


TESTBEDS = (
    ExampleTestbed("2n-clx", ("avf", "rdma"), 1.0),
    ExampleTestbed("3n-icx", ("avf", "dpdk"), 1.15, away=range(240, 249), wander=0.3),
    # No runs in the last nights: an example of missing data.
    ExampleTestbed("2n-zn2", ("dpdk",), 0.85, cores=("1C", "2C"), away=range(340, DAYS)),
)

SUITES: Mapping[str, tuple[float, SimulatedNoise]] = {
    "ethip4-ip4base": (12.5e6, SimulatedNoise(within=0.2, between=0.3)),
    "ethip4-ip4scale200k": (10.1e6, SimulatedNoise(within=0.3, between=0.6, outliers=0.01)),
    "ethip6-ip6base": (10.4e6, SimulatedNoise(within=0.2, between=0.4, layout=0.3)),
    "eth-l2bdbasemaclrn": (9.3e6, SimulatedNoise(within=0.2, between=0.3, modes=1.6)),
    "ethip4-ip4base-iacl50": (6.2e6, SimulatedNoise(within=0.5, between=1.0)),
    "ethip4ipsec4tnlsw-ip4base-int-aes256gcm": (
        3.1e6,
        SimulatedNoise(within=0.4, between=0.5, outliers=0.02),
    ),
}
"""Packets per second of one core at the smallest frame size on the first testbed, and the noise."""

METRICS: Mapping[str, Mapping[str, float]] = {"mrr": {"mrr": 1.0}, "ndrpdr": {"ndr": 0.86, "pdr": 0.94}}
"""Metrics of each kind of test, relative to the receive rate at overload."""


@dataclass(frozen=True, slots=True)
class Event:
    """A change of rates, caused by a commit or by wear of a testbed."""

    what: str
    day: int
    """From 0; the first run on or after this day measures it."""
    size: float
    """Relative."""
    where: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Regular expressions for the parameters of the traces that change."""
    lasts: int = 0
    """Duration of a drift in days; 0 for a step."""


EVENTS = (
    Event("lookups walk one more table", 62, -0.04, {"suite": "ethip4-.*", "frame": "64B"}),
    Event("bridge domains learn in batches", 118, 0.065, {"suite": "eth-l2.*", "frame": "64B"}),
    Event("each frame is copied before it is encrypted", 171, -0.09, {"suite": ".*ipsec.*"}),
    Event("that copy is gone again", 178, 0.099, {"suite": ".*ipsec.*"}),
    Event("dust in a fan", 200, -0.05, {"testbed": "3n-icx", "suite": ".*-iacl50-.*", "frame": "64B"}, 90),
    Event("a queue of the driver has half its length", 262, -0.025, {"driver": "rdma", "frame": "64B"}),
    Event("neighbours are prefetched", 331, 0.03, {"suite": "ethip6-.*", "frame": "78B"}),
    Event("counters are atomic", 349, -0.06, {"suite": ".*-iacl50-.*", "frame": "64B"}),
    Event("one test lost its hint", 357, -0.11,
          {"test": "64b-1c-ethip4-ip4scale200k-mrr", "testbed": "2n-clx", "driver": "avf"}),
)  # fmt: skip
"""In chronological order. A step comes with the first commit of its day."""

FAILING = ("imix-4c-ethip6-ip6base-mrr", 352)
"""A test, and the day from which it fails."""
FLAKY = ("64b-2c-ethip4-ip4base-iacl50-mrr", 0.06)
"""A test, and the fraction of nights in which it fails."""
NEW = ("64b-1c-ethip4ipsec4tnlsw-ip4base-int-aes256gcm-ndrpdr", 285)
"""A test, and the first day on which it is measured."""
GONE = ("1518b-1c-eth-l2bdbasemaclrn-mrr", 215)
"""A test, and the day from which it is no longer measured."""

KERNELS = ("6.1.0-26-amd64", "6.1.0-28-amd64")
UPDATED = ("2n-clx", 349)
"""A testbed whose device gets the newer kernel, and the day: that of the atomic counters."""

ALERT = Rules("Changes and missing data", "", silent_runs=3, silent_hours=72, owner="example")
"""A rule that creates alerts to triage."""

_MISSED = 0.03
"""Fraction of nights without a run; a tenth of it is the fraction of missing results in a run."""
_DISTURBED = 0.004
_WEEKEND = 5


@dataclass(frozen=True, slots=True, eq=False)
class ExampleTrace:
    """A metric of a test, with its levels and its noise."""

    key: TraceKey
    levels_pps: Samples
    """Without noise, shape (days,)."""
    noise: SimulatedNoise
    random: np.random.Generator

    def result(self, day: int) -> Result:
        """Return a simulated result of a day."""
        test = self.key["test"]
        lot = float(self.random.random())
        drawn = self.noise.draw(self.random)
        nothing = Result(self.key, "pps", Better.HIGHER, Status.FAIL)
        if (test == FAILING[0] and day >= FAILING[1]) or (test == FLAKY[0] and lot < FLAKY[1]):
            return replace(nothing, message="no frame came back: interface 0000:3b:00.1 is down")
        level = float(self.levels_pps[day])
        samples = tuple(round(level * math.exp(each / 100), 1) for each in drawn)
        invalid = "the generator sent 1.2 % less than it should" if lot > 1 - _DISTURBED else ""
        value = sum(samples) / len(samples)
        return Result(self.key, "pps", Better.HIGHER, Status.PASS, samples, value, invalid)


def fill(path: str | Path, *, until: date | None = None, seed: int = SEED) -> None:
    """Create a store with a year of simulated nights; an interrupted call leaves no store.

    :param path: a path that does not exist yet.
    :param until: the day of the last nights; by default today.
    :raises UsageError: if the path exists, and then leave it unchanged, if its folder does not exist, or if
        another process creates the store.
    :raises StoreError: if the store cannot be written.
    """
    if "://" in str(path):
        raise UsageError("--example creates a new file; give --store a path, not the address of a database")
    place = Path(path).absolute()
    if place.exists():
        raise _exists_error(place)
    if not place.parent.is_dir():
        raise UsageError(f"store {place}: its folder does not exist; create it, or name another place")
    with _temporary_folder(place) as folder:
        made = folder / place.name
        with Store.open(made) as store:
            store.add_all(year(until or datetime.now(UTC).date(), seed=seed))
            store.alerts.add(ALERT, user=ALERT.owner)
        try:
            # A hard link: a rename would replace a file that was created in the meantime.
            place.hardlink_to(made)
        except FileExistsError:
            raise _exists_error(place) from None


def judge_in_background(site: AppContext) -> AbstractContextManager[None]:
    """Analyse the newest runs of an example while the dashboard serves it, as the job of each run would."""
    return run_in_background(site, judge_newest_runs)


def judge_newest_runs(site: AppContext, ending: threading.Event) -> None:
    """Store the verdicts of the newest runs that have none, the newest runs of all testbeds first."""
    newest = [
        site.store.verdicts.newest(testbed, last=JUDGED_RUNS) for testbed in site.store.tiles.testbeds()
    ]
    for run, verdict in chain.from_iterable(zip_longest(*newest, fillvalue=(None, None))):
        if run is not None and verdict is None and not ending.is_set():
            _judge(site, run, ending)


def _judge(site: AppContext, run: Run, ending: threading.Event) -> None:
    chosen, give_way = site.settings.analysis, site.traffic.give_way_callback()
    verdicts: list[Verdict] = []
    series = tuple(site.store.series(run.testbed, last=chosen.history, until=run))
    expected = previous_traces(series, run)
    for one in series:
        if ending.is_set():
            return
        give_way()
        verdicts += evaluate_all([one], run=run, expected=expected & {one.key}, criteria=criteria_of(chosen))
    site.store.verdicts.save(run, RunVerdict.of(verdicts, judged=run.finished))


@contextmanager
def _temporary_folder(place: Path) -> Iterator[Path]:
    """Yield an empty folder next to a file; it is removed afterwards, or emptied by the next call."""
    folder = place.with_name(f".{place.name}.example")
    folder.mkdir(exist_ok=True)
    with lock_folder(folder) as lock:
        if lock is None:
            raise UsageError(f"store {place}: another process is creating it; wait until it has ended")
        for each in folder.iterdir():
            each.unlink()
        try:
            yield folder
        finally:
            shutil.rmtree(folder)


def _exists_error(place: Path) -> UsageError:
    return UsageError(
        f"store {place} already exists and is not changed; "
        "omit --example to see it, or give --store another path"
    )


def year(until: date, *, seed: int = SEED) -> Iterator[tuple[Run, list[Result]]]:
    """Yield the runs of a year in the order of time, each with its results.

    :param until: the day of the last runs.
    """
    random = np.random.default_rng(seed)
    revisions = list(_revisions(until, random))
    traces = {testbed: list(_traces(testbed, random)) for testbed in TESTBEDS}
    builds = dict.fromkeys(TESTBEDS, 0)
    for day, testbed in product(range(DAYS), TESTBEDS):
        if day in testbed.away or random.random() < _MISSED:
            continue
        builds[testbed] += 1
        run = _run(testbed, builds[testbed], _day(until, day), revisions[day])
        run = replace(run, environment=_environment(testbed, day))
        measured = [each for each in traces[testbed] if _is_there(each.key["test"], day)]
        yield run, [each.result(day) for each in measured if random.random() >= _MISSED / 10]


def _day(until: date, day: int) -> date:
    return until - timedelta(days=DAYS - 1 - day)


def _run(testbed: ExampleTestbed, build: int, day: date, revision: str) -> Run:
    started = datetime.combine(day, time(1, 15), UTC) + timedelta(minutes=7 * TESTBEDS.index(testbed))
    job = f"perftrend-trending-nightly-{testbed.name}"
    return Run(
        testbed.name, job, build, started, started + timedelta(hours=3, minutes=40),
        {"device": revision, "generator": "v3.03"}, simulated=True,
    )  # fmt: skip


def _environment(testbed: ExampleTestbed, day: int) -> dict[str, str]:
    """Return the machines of a testbed on a day."""
    is_updated = testbed.name == UPDATED[0] and day >= UPDATED[1]
    return {"dut: kernel": KERNELS[is_updated], "dut: governor": "performance", "tg: kernel": KERNELS[0]}


def _revisions(until: date, random: np.random.Generator) -> Iterator[str]:
    """Yield the commit that each night measures; on weekends it is seldom a new one."""
    number = 0
    for day in range(DAYS):
        rests = _day(until, day).weekday() >= _WEEKEND and random.random() < 2 / 3
        if not rests or any(event.day == day for event in EVENTS):
            number += 1
        yield hashlib.sha256(f"example {number}".encode()).hexdigest()[:40]


def _traces(testbed: ExampleTestbed, random: np.random.Generator) -> Iterator[ExampleTrace]:
    drift = np.exp(np.cumsum(random.normal(0.0, testbed.wander / math.sqrt(30), DAYS)) / 100)
    for (suite, (rate, noise)), driver in product(SUITES.items(), testbed.drivers):
        smallest = "78B" if "ip6" in suite else "64B"
        for frame, cores, kind in product((smallest, "IMIX", "1518B"), testbed.cores, METRICS):
            if kind == "ndrpdr" and (frame, cores) != (smallest, "1C"):
                continue
            for metric, share in METRICS[kind].items():
                key = TraceKey.of(
                    testbed=testbed.name, suite=f"{suite}-{kind}", driver=driver, frame=frame, cores=cores,
                    test=f"{frame.lower()}-{cores.lower()}-{suite}-{kind}", metric=metric,
                )  # fmt: skip
                wanted = share * testbed.speed * rate * _speedup(cores) * float(random.uniform(0.97, 1.03))
                carried = 2 * share * LINK_PPS[frame]
                yield ExampleTrace(
                    key,
                    np.minimum(wanted * _course(key, drift), carried),
                    _noise(noise, metric, limited=wanted > carried),
                    np.random.default_rng(random.integers(2**32)),
                )


def _speedup(cores: str) -> float:
    number = int(cores.removesuffix("C"))
    return number * 0.97 ** (number - 1)


def _noise(noise: SimulatedNoise, metric: str, *, limited: bool) -> SimulatedNoise:
    """Return the noise of a metric: a search gives one value, and a saturated link has almost no noise."""
    if limited:
        noise = SimulatedNoise(within=0.01, between=0.01, samples=noise.samples)
    return noise if metric == "mrr" else replace(noise, samples=1)


def _course(key: TraceKey, drift: Samples) -> Samples:
    """Return the factor of the events and the drift on the rate of each day, shape (days,)."""
    course = drift.copy()
    for event in EVENTS:
        if all(re.fullmatch(form, key[name]) for name, form in event.where.items()):
            reached = np.clip((np.arange(DAYS) - event.day + 1) / max(event.lasts, 1), 0.0, 1.0)
            course *= 1 + event.size * reached
    return course


def _is_there(test: str, day: int) -> bool:
    return not ((test == NEW[0] and day < NEW[1]) or (test == GONE[0] and day >= GONE[1]))
