"""Reports of made-up bisections: commits named by a digit, levels by commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from perftrend.bisect import BisectOutcome, BisectState, CommitRange, Culprit, Effect, OutcomeKind, Suspicion
from perftrend.bisect.state import RangeCommit
from perftrend.model import Better, BuildMeasurement, MetricSamples
from perftrend.report.bisect import BisectReport, BisectSubject, NamedCommit

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
SUBJECT = BisectSubject("1n-veth", change=1234, patch_set=3, page="https://review.example/c/router/+/1234")
SLOWER = Effect(10e6, 9e6, -0.1, -0.11, -0.09, 0.999)
SAME = Effect(5e6, 5.01e6, 0.002, -0.01, 0.012, 0.02)


def name(number: int) -> str:
    """Return the hash of a commit: 0 is the old one."""
    return f"{number:012d}{'f' * 28}"


def measured(
    number: int, levels: Mapping[str, float], failed: Mapping[str, str] | None = None, *, unit: str = "pps"
) -> BuildMeasurement:
    values = {
        test: MetricSamples(
            (level, level * 1.002, level * 0.998), unit, Better.LOWER if unit == "ms" else Better.HIGHER
        )
        for test, level in levels.items()
    }
    return BuildMeasurement(
        name(number), BEGIN, BEGIN + timedelta(minutes=12), values, failed or {}, f"7/parent{number}/1"
    )


def state(
    count: int, done: Sequence[BuildMeasurement], broken: Mapping[int, str] | None = None
) -> BisectState:
    """Return a straight history of so many commits above the old one."""
    commits = tuple(RangeCommit(name(number), (name(number - 1),)) for number in range(1, count + 1))
    return BisectState(
        CommitRange(name(0), commits),
        built={each.commit: 60.0 for each in done},
        broken={name(number): why for number, why in (broken or {}).items()},
        measured=tuple(done),
    )


def report(ended: BisectOutcome, known: BisectState, **others: Any) -> BisectReport:
    numbers = range(len(known.range.commits) + 1)
    return BisectReport(
        **{
            "outcome": ended,
            "state": known,
            "subject": SUBJECT,
            "names": {
                name(number): NamedCommit(f"Commit number {number}", "Ada Example") for number in numbers
            },
            "job": "perftrend-bisect-1n-veth",
            "build": 7,
            "strategy": "adaptive",
            "formula": "jumpavg-0.4",
            "confidence": 0.99,
            "link": "https://jenkins.example/job/b/7/artifact/report/index.html",
            "archive": "https://jenkins.example/job/b/7/artifact/archives/b/7",
            "command": f"./run bisect --testbed 1n-veth --old {name(0)} --change 1234",
            **others,
        }
    )


def found(*culprits: Culprit, **others: Any) -> BisectOutcome:
    return BisectOutcome(OutcomeKind.FOUND, "there is hardly another change", culprits, **others)


def slower(**others: Any) -> BisectReport:
    """Return the report of a commit that made one test of two slower."""
    done = [
        measured(0, {"acl": 10e6, "ip4": 5e6}),
        measured(1, {"acl": 10e6, "ip4": 5e6}),
        measured(2, {"acl": 9e6, "ip4": 5e6}),
        measured(4, {"acl": 9e6, "ip4": 5e6}),
    ]
    culprit = Culprit((name(2),), 0.9973, {"ip4": SAME, "acl": SLOWER})
    belief = (Suspicion((), 0.0001), Suspicion((name(2),), 0.9973), Suspicion((name(3), name(4)), 0.0026))
    diffs = {name(2): ("diff --git a/acl.c b/acl.c", "-fast", "+\tslow")}
    return report(found(culprit, belief=belief), state(4, done), **{"diffs": diffs, **others})


def hidden(**others: Any) -> BisectReport:
    """Return the report of a change that commits hide which do not build."""
    done = [measured(0, {"acl": 10e6}), measured(3, {"acl": 9e6})]
    culprit = Culprit((name(1), name(2), name(3)), 0.9999, {"acl": SLOWER})
    broken = {1: "router at 1: build failed: make ended with 2; see /srv/log", 2: "the same; see /srv/log"}
    return report(found(culprit), state(3, done, broken), **others)


def nothing(**others: Any) -> BisectReport:
    """Return the report of a range in which nothing was shown."""
    done = [measured(0, {"acl": 10e6, "ip4": 5e6}), measured(2, {"acl": 10e6, "ip4": 5e6})]
    outcome = BisectOutcome(
        OutcomeKind.NO_DIFFERENCE,
        "no difference was shown; the probability that there is none is 0.99",
        smallest_visible={"acl": 0.012, "ip4": 0.031},
        outliers={"acl": (1,)},
    )
    return report(outcome, state(2, done), **others)


def undecided(**others: Any) -> BisectReport:
    """Return the report of measurements that were not enough."""
    belief = (Suspicion((), 0.2), Suspicion((name(1), name(2)), 0.7), Suspicion((name(3),), 0.1))
    done = [measured(0, {"acl": 10e6}), measured(3, {"acl": 9.9e6})]
    reason = "150 measurements were made, and no commit is sure enough"
    outcome = BisectOutcome(
        OutcomeKind.UNDECIDED, reason, belief=belief, smallest_visible={"acl": 0.08}, remaining=24
    )
    return report(outcome, state(3, done), **others)


def not_built(**others: Any) -> BisectReport:
    """Return the report of an end that does not build."""
    why = "router at 000000000000: build failed: make ended with 2; see /srv/builds/logs/0.build.log"
    reason = f"the old commit {name(0)} does not build: {why}"
    last_lines = {"last_lines": ("router.c:4: error", "\tmake: *** [all] Error 1")}
    return report(
        BisectOutcome(OutcomeKind.NOT_BUILT, reason), state(3, [], {0: why}), **{**last_lines, **others}
    )


def failing(**others: Any) -> BisectReport:
    """Return the report of a commit from which on a test fails, and one that made another faster."""
    done = [
        measured(0, {"acl": 10e6, "ip4": 5e6}),
        measured(1, {"acl": 10e6, "ip4": 6e6}),
        measured(2, {"ip4": 6e6}, {"acl": "no route"}),
    ]
    fails = Culprit((name(2),), 0.998, {"acl": Effect(10e6, float("nan"), float("nan"), probability=0.999)})
    faster = Culprit((name(1),), 0.992, {"ip4": Effect(5e6, 6e6, 0.2, 0.19, 0.21, 0.99)})
    return report(found(fails, faster), state(2, done), **others)


KINDS = {
    "slower": slower(),
    "hidden": hidden(),
    "nothing": nothing(),
    "undecided": undecided(),
    "not built": not_built(),
    "failing": failing(),
}
