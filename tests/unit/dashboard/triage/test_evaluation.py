"""Evaluations: items and messages out of nights, each once, whatever happens."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from unittest.mock import patch

import pytest

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.triage import evaluate, evaluation
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Alert, Night, Override, Rules, TriageEdit
from tests.unit.dashboard.triage.conftest import FIRST, MEASURED, STEPS, TESTBED, Nights, commit, key


def test_traces_that_change_at_one_commit_are_one_item(nights: Nights, alert: Alert) -> None:
    nights.evaluate()

    (item,) = nights.items()
    assert ("regression", 2, "new", "ann") == (item.kind, item.traces, item.status, item.owner)
    assert (commit(19), commit(20)) == (item.span.last_good.revision, item.span.first_changed.revision)
    assert item.size == pytest.approx(-0.1, abs=0.01)
    assert item.low is not None
    assert item.high is not None
    assert item.low < item.size < item.high


def test_same_night_once_more_changes_nothing(nights: Nights, alert: Alert) -> None:
    nights.evaluate()
    before = nights.items()

    again = nights.evaluate()

    assert evaluation.EvaluationResult() == again
    assert before == nights.items()
    assert 1 == nights.store.alerts.outbox.count_unsent()


def test_next_night_does_not_tell_it_again(nights: Nights, alert: Alert) -> None:
    nights.evaluate()
    nights.measure(5)

    assert evaluation.EvaluationResult() == nights.evaluate()
    assert 1 == len(nights.items())


def test_trace_that_changes_at_the_same_commit_later_joins_and_is_logged(
    nights: Nights, alert: Alert
) -> None:
    """It is looked at later: the alert looked at one of the two at first."""
    nights.store.alerts.edit(alert.identity, replace(alert.rules, query="test=a"), version=1, user="ann")
    nights.evaluate()
    nights.store.alerts.edit(alert.identity, alert.rules, version=2, user="ann")

    assert evaluation.EvaluationResult(joined=1) == nights.evaluate()

    (item,) = nights.items()
    assert 2 == item.traces
    newest = nights.store.activity.newest(1, item.subject)[0]
    assert ("evaluation", "joined", "1 more trace") == (newest.user, newest.action, newest.detail)
    assert 1 == nights.store.alerts.outbox.count_unsent()


def test_improvement_is_an_item_of_its_own(nights: Nights, alert: Alert) -> None:
    nights.factors = lambda test, night: {"a": 0.9, "b": 1.2}.get(test, 1.0) if night >= 35 else 1.0
    nights.measure(20)

    nights.evaluate()

    found = {(item.kind, item.span.first_changed.revision) for item in nights.items()}
    assert {("regression", commit(35)), ("progression", commit(35))} <= found


def test_what_a_person_said_stays(nights: Nights, alert: Alert) -> None:
    nights.evaluate()
    (item,) = nights.items()
    nights.store.alerts.items.triage([TriageEdit(item.identity, item.version, "bug", "#12")], user="bob")

    nights.measure(4)
    nights.evaluate()

    (now,) = nights.items()
    assert ("bug", "#12", "bob") == (now.status, now.message, now.changed_by)


def test_change_that_disappears_closes_its_item_and_opens_it_when_it_is_back(
    nights: Nights, alert: Alert
) -> None:
    """A stricter detector takes the change back; the old one finds it again."""
    nights.evaluate()
    (item,) = nights.items()
    nights.store.alerts.items.triage([TriageEdit(item.identity, item.version, "bug", "#12")], user="bob")
    blind = replace(alert.rules, change=0.9)
    edited = nights.store.alerts.edit(alert.identity, blind, version=1, user="ann")

    gone = nights.evaluate()

    (closed,) = nights.items()
    assert 1 == gone.closed
    assert ("closed", "no longer found", "#12") == (closed.status, closed.reason, closed.message)
    assert edited.now is not None
    nights.store.alerts.edit(alert.identity, alert.rules, version=edited.now.version, user="ann")

    back = nights.evaluate()

    (open_again,) = nights.items()
    assert (1, 0) == (back.reopened, back.new)
    assert ("bug", "", "#12") == (open_again.status, open_again.reason, open_again.message)
    assert 1 == nights.store.alerts.outbox.count_unsent()


def test_alert_that_finds_a_closed_item_with_a_further_trace_reports_it(nights: Nights, alert: Alert) -> None:
    nights.store.alerts.edit(alert.identity, replace(alert.rules, query="test=a"), version=1, user="ann")
    nights.evaluate()
    nights.store.alerts.edit(alert.identity, replace(alert.rules, change=0.9), version=2, user="ann")
    nights.evaluate()
    nights.store.alerts.add(replace(alert.rules, name="second", target="bob@example.org"), user="bob")

    back = nights.evaluate()

    assert (0, 1, 1, 1) == (back.new, back.joined, back.reopened, back.messages)
    assert 2 == nights.store.alerts.outbox.count_unsent()


def test_old_change_is_not_told_by_a_new_alert(nights: Nights) -> None:
    nights.store.alerts.add(Rules("late", "", recent_runs=5), user="ann")

    assert 0 == nights.evaluate().new


def test_threshold_and_direction_decide(nights: Nights) -> None:
    nights.store.alerts.add(Rules("large", "", change=0.2), user="ann")
    nights.store.alerts.add(Rules("better", "", direction="progression"), user="ann")

    assert 0 == nights.evaluate().new


def test_query_decides(nights: Nights) -> None:
    nights.store.alerts.add(Rules("b", "test=b"), user="ann")

    nights.evaluate()

    assert [key("b").hash] == [item.trace for item in nights.items()]


@pytest.mark.parametrize(
    "override",
    [
        Override(0, key("a").hash, change=0.5),
        Override(0, key("a").hash, muted_until=datetime(2027, 1, 1, tzinfo=UTC)),
    ],
)
def test_override_of_a_trace_decides(nights: Nights, alert: Alert, override: Override) -> None:
    nights.store.alerts.override(replace(override, alert=alert.identity), version=1, user="ann")

    nights.evaluate()

    assert [(1, key("b").hash)] == [(item.traces, item.trace) for item in nights.items()]


def test_mute_ends(nights: Nights, alert: Alert) -> None:
    muted = Override(alert.identity, key("a").hash, muted_until=nights.now - timedelta(hours=1))
    nights.store.alerts.override(muted, version=1, user="ann")

    nights.evaluate()

    assert [2] == [item.traces for item in nights.items()]


def test_two_alerts_that_find_one_change_make_one_item_and_each_tells_it(
    nights: Nights, alert: Alert
) -> None:
    rules = Rules("b", "test=b", action="webhook", target="https://example.org/hook")
    nights.store.alerts.add(rules, user="bob")

    nights.evaluate()

    (item,) = nights.items()
    sent = nights.store.alerts.outbox.of(item.identity)
    assert ["mail", "webhook"] == [message.action for message in sent]
    assert 2 == len({message.key for message in sent})


@pytest.mark.parametrize(("query", "found"), [("test=a", 0), ("experiment=quick", 1), ("experiment!=", 1)])
def test_alert_leaves_experiments_out_unless_its_query_names_them(
    nights: Nights, query: str, found: int
) -> None:
    nights.store.alerts.add(Rules("silence", query, change=0.9, silent_runs=3), user="ann")
    measure_experiments(nights, ["quick", "quick", "quick", "", "", ""])
    nights.evaluate()
    assert [] == nights.items()
    measure_experiments(nights, ["slow", "slow", "slow"])
    nights.evaluate()
    assert [] == nights.items()

    nights.tests = ("other",)
    measure_experiments(nights, ["quick", "quick", "quick"])
    nights.evaluate()

    assert found == len(nights.items())


def measure_experiments(nights: Nights, names: Sequence[str]) -> None:
    """Measure runs of one job, each an experiment of some name or, with an empty one, none."""
    for name in names:
        started = FIRST + timedelta(days=nights.count)
        run = Run(
            TESTBED, "job", nights.count, started, started + timedelta(hours=1),
            {"device": commit(nights.count)}, experiment=name,
        )  # fmt: skip
        keys = [key(test).of_experiment(name) for test in nights.tests]
        samples = (1e7,)
        nights.store.add(
            run, [Result(each, "pps", Better.HIGHER, Status.PASS, samples, samples[0]) for each in keys]
        )
        nights.count += 1


def test_trace_that_falls_silent_is_told_and_closed_when_it_speaks(nights: Nights) -> None:
    nights.store.alerts.add(Rules("silence", "", change=0.9, silent_runs=3), user="ann")
    nights.factors = lambda test, night: None if test == "c" and 30 <= night < 34 else 1.0
    nights.measure(2)
    assert 0 == nights.evaluate().new
    nights.measure(1)

    told = nights.evaluate()

    (item,) = nights.items()
    assert (1, "silence", commit(30)) == (told.new, item.kind, item.span.first_changed.revision)
    nights.measure(2)
    nights.evaluate()
    (item,) = nights.items()
    assert ("closed", "has values again") == (item.status, item.reason)


def test_node_that_the_device_no_longer_has_is_not_silent(nights: Nights) -> None:
    nights.store.alerts.add(Rules("silence", "", change=0.9, silent_runs=3), user="ann")
    last = FIRST + timedelta(days=nights.count)
    node = TraceKey.of(testbed=TESTBED, test="a", metric="cycles_ip4-lookup")
    run = Run(TESTBED, "nightly", nights.count + 1, last, last, {"device": commit(nights.count)})
    nights.store.add(run, [Result(node, "cycles", Better.LOWER, Status.PASS, (30.0,), 30.0)])
    nights.count += 1
    nights.measure(5)

    assert 0 == nights.evaluate().new


def test_testbed_without_runs_is_told_once_and_closed_by_the_next_run(nights: Nights) -> None:
    nights.store.alerts.add(Rules("runs", "", change=0.9, silent_hours=30), user="ann")
    assert 0 == nights.evaluate().new
    late = nights.now + timedelta(hours=30)

    assert 1 == evaluate(nights.store, Catalog(nights.store), TESTBED, late).new
    assert 0 == evaluate(nights.store, Catalog(nights.store), TESTBED, late + timedelta(days=1)).new
    (item,) = nights.items()
    assert ("stopped", 0) == (item.kind, item.traces)
    nights.measure(1)
    nights.evaluate()
    (item,) = nights.items()
    assert ("closed", "has runs again") == (item.status, item.reason)


def test_job_that_stops_is_missed_although_another_one_goes_on(nights: Nights) -> None:
    """The weekly job alone measures the test d."""
    weekly = Run(
        TESTBED,
        "weekly",
        1,
        nights.now,
        nights.now + timedelta(hours=1),
        {"device": commit(nights.count - 1)},
    )
    result = Result(key("d"), "pps", Better.HIGHER, Status.PASS, (1e7,), 1e7)
    nights.store.add(weekly, [result])
    nights.store.alerts.add(Rules("weekly", "test=d", silent_hours=170), user="ann")
    nights.store.alerts.add(Rules("all", "", change=0.9, silent_hours=30), user="ann")
    nights.measure(7)
    looked = nights.evaluate()
    assert (0, weekly.finished + timedelta(hours=170)) == (looked.new, looked.silent_from)

    nights.measure(1)

    assert 1 == nights.evaluate().new
    (item,) = nights.items()
    assert ("stopped", 0) == (item.kind, item.traces)
    assert item.span.first_changed.moment == weekly.finished + timedelta(hours=170)
    assert evaluation.EvaluationResult(silent_from=nights.now + timedelta(hours=29)) == nights.evaluate()


def test_alert_of_another_version_does_not_stop_the_others(nights: Nights, alert: Alert) -> None:
    nights.store.alerts.add(Rules("odd", "", detector={"method": "oracle"}), user="ann")
    nights.store.alerts.add(Rules("newer", "", detector={"unknown": 1}), user="ann")

    assert 1 == nights.evaluate().new


def test_switched_off_alert_looks_at_nothing(nights: Nights) -> None:
    nights.store.alerts.add(Rules("off", "", enabled=False), user="ann")

    assert evaluation.EvaluationResult() == nights.evaluate()


def test_two_processes_at_once_enter_everything_once(nights: Nights, alert: Alert) -> None:
    """Both have looked before either writes."""
    both = threading.Barrier(2, timeout=30)
    look = evaluation.look

    def late(*args: object, **named: object) -> object:
        seen = look(*args, **named)  # type: ignore[arg-type]
        both.wait()
        return seen

    with patch.object(evaluation, "look", late):
        threads = [threading.Thread(target=nights.evaluate) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert [2] == [item.traces for item in nights.items()]
    assert 1 == nights.store.alerts.outbox.count_unsent()


def test_kill_before_the_end_leaves_nothing_behind(nights: Nights, alert: Alert) -> None:
    with patch.object(Night, "describe", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        nights.evaluate()

    assert [] == nights.items()
    assert 0 == nights.store.alerts.outbox.count_unsent()
    assert 1 == nights.evaluate().new


def test_process_that_knows_fewer_runs_changes_nothing(nights: Nights, alert: Alert) -> None:
    nights.evaluate()
    with nights.store.alerts.night(TESTBED, newest_run=1, since=None) as night:
        assert night.is_stale


def test_alert_that_is_edited_meanwhile_is_read_again(nights: Nights, alert: Alert) -> None:
    edits = [replace(alert.rules, change=0.5)]
    look = evaluation.look

    def edited(*args: object, **named: object) -> object:
        seen = look(*args, **named)  # type: ignore[arg-type]
        if edits:
            nights.store.alerts.edit(alert.identity, edits.pop(), version=1, user="bob")
        return seen

    with patch.object(evaluation, "look", edited):
        nights.evaluate()

    assert [] == nights.items()


def test_step_of_invalid_runs_is_gone_until_they_are_restored(nights: Nights, alert: Alert) -> None:
    nights.measure(10)
    nights.evaluate()
    before = [item.status for item in nights.items()]
    changed = nights.store.runs(TESTBED)[min(STEPS.values()) :]
    for run in changed:
        nights.store.invalidations.add(run, "a fan failed", author="ann")

    assert nights.evaluate().closed == len(before) > 0
    for run in changed:
        nights.store.invalidations.remove(run, author="ann")
    assert nights.evaluate().reopened == len(before)


def test_testbed_without_runs_or_alerts_is_nothing_to_look_at(store: Store, alert: Alert) -> None:
    assert evaluation.EvaluationResult() == evaluate(store, Catalog(store), "3n-skx", FIRST)


def test_renamed_trace_keeps_its_item_and_is_told_once(nights: Nights, alert: Alert) -> None:
    nights.evaluate()
    (before,) = nights.items()
    nights.store.alerts.override(
        Override(alert.identity, key("c").hash, muted_until=FIRST + timedelta(days=999)),
        version=1,
        user="ann",
    )
    for old in ("a", "b", "c"):
        nights.store.renames.add("test", old, f"{old}-new", author="ann")
    steps = {"a-new": 0, "b-new": 0, "c-new": MEASURED}
    nights.factors = lambda test, night: 0.9 if night >= steps[test] else 1.0
    nights.tests = tuple(steps)
    nights.measure(8)

    assert evaluation.EvaluationResult() == nights.evaluate()

    (item,) = nights.items()
    assert (before.identity, before.status, before.traces) == (item.identity, item.status, item.traces)
    found = nights.store.alerts.items.findings(item.identity)
    assert {key("a-new").hash, key("b-new").hash} == {each.trace for each in found}
    assert 1 == nights.store.alerts.outbox.count_unsent()


def test_silence_of_an_old_name_ends_with_the_rename(nights: Nights, alert: Alert) -> None:
    nights.store.alerts.edit(alert.identity, replace(alert.rules, silent_runs=3), version=1, user="ann")
    nights.tests = ("a", "b", "new")
    nights.measure(5)
    nights.evaluate()
    assert ["new"] == [item.status for item in nights.items() if item.kind == "silence"]

    nights.store.renames.add("test", "c", "new", author="ann")
    nights.evaluate()

    assert ["closed"] == [item.status for item in nights.items() if item.kind == "silence"]


def test_runs_in_every_order_enter_each_change_once_with_the_commit_it_began_with(tmp_path: Path) -> None:
    """Runs are stored and evaluated in the order in which they end; three tests get slower."""
    began = {"a": 16, "b": 17, "c": 18}
    for order in permutations(range(16, 19)):
        with Store.open(tmp_path / f"{order}.sqlite") as store:
            nights = Nights(store, factors=lambda test, night: 0.9 if night >= began[test] else 1.0)
            nights.measure(16)
            store.alerts.add(Rules("all", "", change=0.03), user="ann")
            nights.evaluate()
            for count in order:
                nights.count = count
                nights.noise.seed(count)
                nights.measure(1)
                nights.count = 19
                nights.evaluate()
                nights.evaluate()

            found = [
                (each.trace, each.span.first_changed.revision)
                for item in nights.items()
                for each in store.alerts.items.findings(item.identity)
            ]
            assert sorted((key(test).hash, commit(night)) for test, night in began.items()) == sorted(
                found
            ), order
