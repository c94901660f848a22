"""Data that is deleted because of its age, and data that remains however old it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.engine import Engine

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store, connection
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.requests import Request, RequestState
from perftrend.store.retention import RetentionKind
from perftrend.store.schema import activity, details, items, outbox, runs, short_urls
from perftrend.store.verdicts import PatchTest, PatchTrace

OLD = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = OLD + timedelta(days=10)
NEW = OLD + timedelta(days=20)
REQUEST = Request(
    key="k1", change=1, patch_set=2, project="router", branch="master", revision="a" * 40,
    ref="refs/changes/01/1/2", review="m1", comment="c1", path="/PATCHSET_LEVEL", account="1", asked=OLD,
    place=0, line="perftest-2n-clx", job="perftest", testbed="2n-clx", state=RequestState.ENDED, decided=OLD,
    answered=True,
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as made:
        yield made


@pytest.fixture
def engine(store: Store, tmp_path: Path) -> Iterator[Engine]:
    """Give the same store, for rows of a chosen age."""
    made = connection.engine_of(tmp_path / "store.sqlite")
    yield made
    made.dispose()


def run_at(moment: datetime, build: int) -> Run:
    return Run("2n-clx", "nightly", build, moment, moment, {"device": "1"}, archive=f"/{build}")


def delete(store: Store, kind: RetentionKind) -> int:
    """Delete, having counted the same number before."""
    count = store.retention.count(kind, LIMIT)

    assert count == store.retention.delete(kind, LIMIT)
    assert 0 == store.retention.count(kind, LIMIT)
    return count


def left(store: Store) -> list[str]:
    return sorted(each.key for each in store.requests.in_states(*RequestState))


def test_details_are_deleted_and_values_stay(store: Store) -> None:
    results = [
        Result(
            TraceKey.of(test=name), "pps", Better.HIGHER, Status.PASS, (1.0, 2.0), 1.5, details={"a": name}
        )
        for name in ("ip4", "l2")
    ]
    old, new = run_at(OLD, 1), run_at(NEW, 2)
    store.add(old, results)
    store.add(new, results)

    assert 2 == delete(store, RetentionKind.DETAILS)
    assert [replace(each, details={}) for each in results] == store.results(old)
    assert results == store.results(new)
    assert [old, new] == store.runs("2n-clx")


def test_duplicates_of_details_become_references_and_results_stay(store: Store, engine: Engine) -> None:
    def result(metric: str, content: dict[str, object]) -> Result:
        key = TraceKey.of(test="ip4", metric=metric)
        return Result(key, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0, details=content)

    alike = {"trials": [1, 2.5], "text": "µ"}
    results = [
        result("ndr", alike),
        result("pdr", alike),
        result("mrr", {"a": 1}),
        result("lat", {"a": True}),
    ]
    for build in (1, 2):
        store.add(run_at(OLD, build), results)
    with write_transaction(engine) as opened:
        # As versions did that wrote no references; run 2 has one.
        of_run = details.c.run_id == sa.select(runs.c.id).where(runs.c.build == 1).scalar_subquery()
        opened.execute(sa.update(details).where(of_run, _is_reference).values(details=alike))
    before = [store.results(run_at(OLD, build)) for build in (1, 2)]

    assert (1, 1) == (store.retention.count_duplicates(), store.retention.delete_duplicates())

    assert before == [store.results(run_at(OLD, build)) for build in (1, 2)]
    assert 0 == store.retention.delete_duplicates()
    with read_transaction(engine) as opened:
        references = sa.select(sa.func.count()).select_from(details).where(_is_reference)
        assert 2 == opened.execute(references).scalar()


_is_reference = sa.not_(sa.cast(details.c.details, sa.Text).startswith("{"))


def test_per_patch_tests_are_deleted_with_their_traces_and_archives(store: Store) -> None:
    trace = PatchTrace("ip4", "pps", Better.HIGHER, "no difference", ((1.0,),), ((2.0,),))
    old, new = (
        PatchTest("perftest", build, "2n-clx", "a" * 40, "b" * 40, at, at, 1, archive=f"/{build}")
        for build, at in ((1, OLD), (2, NEW))
    )
    for each in (old, new):
        store.patch_tests.add(each, [trace])

    assert 1 == delete(store, RetentionKind.PATCH_TESTS)
    assert [new] == store.patch_tests.newest(10)
    assert ([], [trace]) == (store.patch_tests.traces(old), store.patch_tests.traces(new))
    assert {"/2": ""} == store.archives.versions("perftest")


def test_many_rows_are_deleted_in_several_transactions(store: Store, engine: Engine) -> None:
    row = {"user": "eva", "action": "annotated", "subject": "commit 1", "detail": ""}
    with write_transaction(engine) as opened:
        opened.execute(sa.insert(activity), [{**row, "moment": OLD}] * 1001 + [{**row, "moment": NEW}])

    assert 1001 == delete(store, RetentionKind.ACTIVITY)
    assert [NEW] == [each.moment for each in store.activity.newest(10)]


def test_short_addresses_are_retained_from_the_last_request(store: Store, engine: Engine) -> None:
    deleted, again = (store.short_urls.save(query, user="eva") for query in ("a=1", "a=2"))
    with write_transaction(engine) as opened:
        opened.execute(sa.update(short_urls).values(made=OLD))
    store.short_urls.save("a=2", user="bob")

    assert 1 == delete(store, RetentionKind.SHORT_URLS)
    assert (None, "a=2") == (store.short_urls.query(deleted), store.short_urls.query(again))


@pytest.mark.parametrize(
    "unfinished",
    [
        {"answered": False},
        *(
            {"state": state}
            for state in (RequestState.SEEN, RequestState.CLAIMED, RequestState.WAITING, RequestState.RUNNING)
        ),
        {"decided": NEW},
        {"decided": None, "asked": NEW},
    ],
)
def test_finished_requests_are_deleted_alone(store: Store, unfinished: dict[str, object]) -> None:
    store.requests.add([REQUEST, replace(REQUEST, key="k2", review="m2", **unfinished)])  # type: ignore[arg-type]

    assert 1 == delete(store, RetentionKind.REQUESTS)
    assert ["k2"] == left(store)


def test_requests_of_one_review_are_deleted_together(store: Store) -> None:
    store.requests.add([REQUEST, replace(REQUEST, key="k2", state=RequestState.RUNNING)])

    assert 0 == delete(store, RetentionKind.REQUESTS)
    assert ["k1", "k2"] == left(store)


def test_requests_that_the_listener_reads_again_stay(store: Store) -> None:
    """Their jobs would be started a second time."""
    store.requests.add([REQUEST, replace(REQUEST, key="k2", review="m2", asked=OLD - timedelta(days=2))])
    store.requests.set_mark("comments https://review.example.org", OLD)

    assert 1 == delete(store, RetentionKind.REQUESTS)
    assert ["k1"] == left(store)


def test_sent_messages_are_deleted_and_unsent_ones_stay(store: Store, engine: Engine) -> None:
    item = {column.name: "" for column in items.c} | {"id": 1, "traces": 0, "version": 1}
    item |= dict.fromkeys(("last_good", "first_changed", "opened", "changed"), OLD)
    item |= dict.fromkeys(column.name for column in items.c if column.nullable)
    message = {
        "alert_id": 1, "item_id": 1, "action": "mail", "target": "", "payload": {}, "made": OLD, "due": OLD,
        "attempts": 9, "error": "",
    }  # fmt: skip
    with write_transaction(engine) as opened:
        opened.execute(sa.insert(items), item)
        sent = {"unsent": None, "old": OLD, "new": NEW}
        opened.execute(
            sa.insert(outbox), [{**message, "key": key, "sent": moment} for key, moment in sent.items()]
        )

    assert 1 == delete(store, RetentionKind.OUTBOX)
    assert ["unsent", "new"] == [each.key for each in store.alerts.outbox.of(1)]
