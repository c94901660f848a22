"""An archived output enters the store as a whole or not at all."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend import message
from perftrend.archive import Unknown, ingest
from perftrend.errors import ArchiveError
from perftrend.model import Measurement, Run
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
