"""An archived output enters the store as a whole or not at all, and once."""

from __future__ import annotations

import io
import re
import shutil
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend import message
from perftrend.archive import Unknown, ingest, read_output, store_pending
from perftrend.archive.ingestion import UNSTORED_MARK, mark_unstored
from perftrend.errors import ArchiveError, StoreError, UnstorableError
from perftrend.measurement import Measurement
from perftrend.model import Result, Run
from perftrend.store import Store

OUTPUT = Path(__file__).parents[2] / "data" / "outputs" / "rf7.xml"
MOMENT = datetime(2026, 1, 2, tzinfo=UTC)
RUN = Run(testbed="2n-clx", job="trending", build=7, started=MOMENT, finished=MOMENT)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_all_results_of_an_output_are_stored(store: Store) -> None:
    ingested = ingest(store, RUN, OUTPUT)

    assert ingested.added
    assert repr(list(ingested.results)) == repr(store.results(RUN))
    assert [ingested.run] == store.runs("2n-clx")
    assert ingested.run.suites_started
    assert RUN == replace(ingested.run, suites_started=None, suites_finished=None)


def test_traces_that_the_testbed_cannot_have_are_known_and_not_stored(store: Store) -> None:
    all_keys = {result.key for result in read_output(OUTPUT)}
    text, changed = re.subn(
        r'<status status="FAIL"([^>]*)>[^<]*</status>(\s*</test>)',
        r'<status status="SKIP"\1>not supported: no such device</status>\2',
        OUTPUT.read_text(),
        count=1,
    )

    ingested = ingest(store, replace(RUN, experiment="acl_rules=60"), io.BytesIO(text.encode()))

    assert changed
    assert ingested.unsupported
    stored = {result.key for result in ingested.results}
    assert {key.of_experiment("acl_rules=60") for key in all_keys} - stored == ingested.unsupported


def test_second_ingest_of_a_run_changes_nothing(store: Store) -> None:
    ingest(store, RUN, OUTPUT)
    before = repr(store.results(RUN))

    assert not ingest(store, RUN, OUTPUT).added
    assert before == repr(store.results(RUN))


def test_damaged_output_leaves_no_trace(store: Store) -> None:
    with pytest.raises(ArchiveError, match="cut off"):
        ingest(store, RUN, io.BytesIO(OUTPUT.read_bytes()[:-20]))

    assert [] == store.runs("2n-clx")


def test_output_of_another_testbed_is_refused(store: Store) -> None:
    with pytest.raises(ArchiveError, match="on testbed 2n-clx, but run trending/7 is of 3n-icx"):
        ingest(store, replace(RUN, testbed="3n-icx"), OUTPUT)

    assert [] == store.runs("3n-icx")


def test_output_without_a_performance_test_is_refused(store: Store) -> None:
    with pytest.raises(ArchiveError, match="contains no performance test"):
        ingest(store, RUN, io.BytesIO(b"<robot/>"))


def test_output_of_a_testbed_that_supports_no_test_is_refused(store: Store) -> None:
    test = '<test name="t"><tag>MRR</tag><status status="SKIP">not supported: no such device</status></test>'
    output = f'<robot><suite name="R">{test}</suite></robot>'.encode()

    with pytest.raises(ArchiveError, match="testbed 2n-clx supports none of the tests; choose others"):
        ingest(store, RUN, io.BytesIO(output))


def test_tests_of_one_name_are_not_trusted(store: Store) -> None:
    """Which of the two is the trace's value nobody knows; the others are not lost for it."""
    test = (
        '<test name="t"><tag>MRR</tag><status status="PASS">'
        "Maximum Receive Rate trial results in packets per second: [1.0]</status></test>"
    )
    other = test.replace('"t"', '"u"')
    output = f'<robot><suite name="R">{test}{other}{test}</suite></robot>'.encode()

    results = ingest(store, RUN, io.BytesIO(output)).results

    assert {"t": False, "u": True} == {result.key["test"]: result.usable for result in results}


def test_what_was_not_understood_is_told(store: Store) -> None:
    tests = (
        '<test name="t"><tag>MRR</tag><status status="PASS">17 apples</status></test>'
        '<test name="u"><status status="PASS"/></test>'
    )
    output = f'<robot><suite name="R">{tests}</suite></robot>'.encode()

    unknown = ingest(store, RUN, io.BytesIO(output)).unknown

    assert {"# apples": Unknown(1, "t"), "no performance test": Unknown(1, "u")} == unknown


def test_folder_with_a_file_a_test_is_one_run(store: Store) -> None:
    assert 9 == len(ingest(store, RUN, OUTPUT.parent / "model").results)


def test_run_is_completed_from_its_messages(store: Store) -> None:
    measurement = Measurement(
        kind="mrr",
        testbed="2n-clx",
        frame="64B",
        frame_bytes=64.0,
        started=MOMENT,
        finished=MOMENT,
        samples=(1.0,),
        versions={"device": "abc", "generator": "1"},
        simulated=True,
    )
    text = message.render(measurement).replace('"', "&quot;")
    output = (
        f'<robot><suite name="R"><test name="t"><status status="PASS">{text}</status></test></suite></robot>'
    )

    ingest(store, replace(RUN, versions={"device": "mine"}), io.BytesIO(output.encode()))

    [stored] = store.runs("2n-clx")
    assert {"device": "mine", "generator": "1"} == stored.versions
    assert stored.simulated


ARCHIVED = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
PENDING = Run(testbed="2n-clx", job="trending", build=9, started=ARCHIVED, finished=ARCHIVED, archive="there")


def archived(folder: Path, build: int) -> Path:
    archive = folder / str(build)
    archive.mkdir(parents=True)
    shutil.copy(OUTPUT, archive / "output.xml")
    mark_unstored(archive, replace(PENDING, build=build))
    return archive


def test_marked_runs_are_stored_in_the_order_of_their_builds(store: Store, tmp_path: Path) -> None:
    for build in (10, 9):
        archived(tmp_path / "job", build)

    stored = list(store_pending(store, tmp_path / "job"))

    assert [9, 10] == [each.run.build for each in stored]
    assert {each.run for each in stored} == set(store.runs("2n-clx"))
    assert ["10", "9"] == sorted(each.name for each in (tmp_path / "job").iterdir())


def test_a_run_that_was_stored_is_not_looked_at_again(store: Store, tmp_path: Path) -> None:
    archive = archived(tmp_path / "job", 9)
    list(store_pending(store, tmp_path / "job"))

    assert not (archive / UNSTORED_MARK).exists()
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_a_run_killed_between_store_and_mark_is_not_doubled(store: Store, tmp_path: Path) -> None:
    archive = archived(tmp_path / "job", 9)
    list(store_pending(store, tmp_path / "job"))
    mark_unstored(archive, PENDING)

    assert [False] == [each.added for each in store_pending(store, tmp_path / "job")]
    assert 1 == len(store.runs("2n-clx"))


def test_a_damaged_output_is_told_once_and_stops_no_other(store: Store, tmp_path: Path) -> None:
    (archived(tmp_path / "job", 9) / "output.xml").write_text("<robot>")
    archived(tmp_path / "job", 10)
    told: list[str] = []

    stored = list(store_pending(store, tmp_path / "job", report=told.append))

    assert [10] == [each.run.build for each in stored]
    assert 1 == len(told)
    assert "job/9: the run is archived, but cannot be stored: " in told[0]
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_a_run_that_contradicts_the_store_is_told_once_and_stops_no_other(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def add(run: Run, results: Sequence[Result]) -> bool:
        if run.build == 9:
            raise UnstorableError("now it is in cps")
        return Store.add(store, run, results)

    monkeypatch.setattr(store, "add", add)
    for build in (9, 10):
        archived(tmp_path / "job", build)
    told: list[str] = []

    stored = list(store_pending(store, tmp_path / "job", report=told.append))

    assert [10] == [each.run.build for each in stored]
    assert [f"{tmp_path}/job/9: the run is archived, but cannot be stored: now it is in cps"] == told
    assert [] == list(store_pending(store, tmp_path / "job"))


def test_runs_of_two_jobs_at_once_are_stored_once(store: Store, tmp_path: Path) -> None:
    for build in range(8):
        archived(tmp_path / "job", build)

    with ThreadPoolExecutor(4) as pool:
        stored = pool.map(lambda _: list(store_pending(store, tmp_path / "job")), range(4))

    assert [*range(8)] == sorted(each.run.build for part in stored for each in part)


def test_a_damaged_mark_is_told_too(store: Store, tmp_path: Path) -> None:
    (archived(tmp_path / "job", 9) / UNSTORED_MARK).write_text('{"testbed": ')
    told: list[str] = []

    assert [] == list(store_pending(store, tmp_path / "job", report=told.append))
    assert "cannot be stored" in told[0]


def test_a_store_that_fails_leaves_the_mark(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise StoreError("the disk is full")

    archive = archived(tmp_path / "job", 9)
    monkeypatch.setattr(store, "add", full)

    with pytest.raises(StoreError):
        list(store_pending(store, tmp_path / "job"))
    assert (archive / UNSTORED_MARK).exists()


def test_a_job_that_never_ran_has_nothing_pending(store: Store, tmp_path: Path) -> None:
    assert [] == list(store_pending(store, tmp_path / "nothing"))
