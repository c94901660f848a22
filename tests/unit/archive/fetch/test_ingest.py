"""From builds to runs: the most complete valid file counts, and a bad build affects no other."""

from __future__ import annotations

import errno
import gzip
import io
import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perftrend.archive.fetch import (
    ArchivedBuild,
    BuildFilter,
    BuildIngester,
    Claim,
    DownloadLimits,
    Fetcher,
    FetchProgress,
    FileCache,
    IngestResult,
    IngestStatus,
    RateLimiter,
    Readers,
    Tally,
    in_parallel,
    run_ingest,
)
from perftrend.errors import ServiceError, UsageError
from perftrend.store import Store
from tests.doubles.archive_server import Server

OUTPUT = (Path(__file__).parents[3] / "data" / "outputs" / "rf7.xml").read_bytes()
"""Its suites say that they ran on testbed 2n-clx."""
SILENT = OUTPUT.replace(b'name="Testbed"', b'name="Somewhat"')
CUT = gzip.compress(OUTPUT)[:-30]
RESULT = {
    "version": "1.0.0",
    "test_name_long": "tests.vpp.64b-2t1c-ethip4-mrr",
    "test_name_short": "64b-2t1c-ethip4-mrr",
    "test_id": "tests.vpp.64b-2t1c-ethip4-mrr",
    "test_type": "mrr",
    "tags": ["MRR", "64B", "1C"],
    "passed": True,
    "start_time": "2024-01-01T00:00:00.0Z",
    "end_time": "2024-01-01T00:01:00.0Z",
    "message": "",
    "result": {
        "type": "mrr",
        "receive_rate": {"rate": {"values": [1e6], "avg": 1e6, "stdev": 0.0, "unit": "pps"}},
    },
}


def stored(location: str) -> frozenset[int]:
    with Store.open(location) as store:
        return frozenset(run.build for run in store.runs("2n-clx"))


class Bench:
    """A server, a store, and the way between them."""

    def __init__(self, server: Server, fetcher: Fetcher, folder: Path) -> None:
        self.served = server.behaviour.folder / "nightly"
        self.store = str(folder / "store.sqlite")
        self.fetcher = fetcher
        Store.open(self.store).close()

    def archive(self, build: int, **files: bytes) -> None:
        for name, content in files.items():
            path = self.served / str(build) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def take(self, processes: int = 0, **claimed: str) -> dict[str, IngestResult]:
        """Take all builds, and return what became of them by name."""
        source = self.fetcher._source
        claims = ((build, self.claim(build, **claimed)) for build in source.builds(BuildFilter()))
        with Readers(self.store, processes, 10**8) as readers:
            taker = BuildIngester(source, self.fetcher, readers)
            return {taken.name: taken for taken in in_parallel(taker, claims, 2, RateLimiter(1).stop)}

    def claim(self, build: ArchivedBuild, **claimed: str) -> Claim:
        return Claim(build.job, build.number, build.location, **claimed)  # type: ignore[arg-type]


@pytest.fixture
def bench(server: Server, fetcher: Callable[..., Fetcher], tmp_path: Path) -> Iterator[Bench]:
    return Bench(server, fetcher(), tmp_path)  # type: ignore[return-value]


def test_each_build_has_its_own_fate(bench: Bench) -> None:
    bench.archive(5, **{"archives/output.xml.gz": gzip.compress(OUTPUT)})
    bench.archive(4, **{"archives/output.xml.gz": CUT})
    bench.archive(3, **{"console.log": b""})
    bench.archive(2, **{"output.xml": OUTPUT[:-20], "output_info.xml": OUTPUT})
    bench.archive(1, **{"output_info.xml": OUTPUT})

    taken = bench.take()

    assert {
        "nightly/5": IngestStatus.NEW,
        "nightly/4": IngestStatus.BROKEN,
        "nightly/3": IngestStatus.MISSING,
        "nightly/2": IngestStatus.NEW,
        "nightly/1": IngestStatus.NEW,
    } == {name: one.fate for name, one in taken.items()}
    assert "4/archives/output.xml.gz: the gzip data is cut off" in taken["nightly/4"].note
    assert "read from output_info.xml instead" in taken["nightly/2"].note
    assert "no stronger output exists" in taken["nightly/1"].note
    assert {1, 2, 5} == stored(bench.store)


def test_threads_read_if_processes_may_not_share_semaphores(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(run_ingest, "ProcessPoolExecutor", forbidden)
    for build in (1, 2):
        bench.archive(build, **{"output.xml": OUTPUT})

    assert [IngestStatus.NEW, IngestStatus.NEW] == [one.fate for one in bench.take(processes=2).values()]
    assert {1, 2} == stored(bench.store)


def test_cache_that_is_too_small_takes_nothing_away_from_who_reads(bench: Bench, tmp_path: Path) -> None:
    small = FileCache(tmp_path / "small", maximum_bytes=1)
    bench.fetcher = Fetcher(bench.fetcher._source, small, RateLimiter(1e6), DownloadLimits())
    result = json.dumps(RESULT)
    for build in range(1, 9):
        files = {f"tests/{test}.info.json": result.replace("64b", f"{test}b") for test in range(5)}
        bench.archive(build, **{name: text.encode() + b" " * build for name, text in files.items()})

    taken = bench.take(testbed="2n-clx")

    assert [(IngestStatus.NEW, 5)] * 8 == [(one.fate, one.results) for one in taken.values()], taken
    bench.archive(9, **{"output.xml": OUTPUT})
    source = bench.fetcher._source
    with bench.fetcher.pin_files():
        kept = bench.fetcher.fetch(next(source.files(next(source.builds(BuildFilter())))))
        assert [kept.path] == list((tmp_path / "small" / "objects").glob("*/*"))


def test_result_files_serve_where_the_output_is_broken(bench: Bench) -> None:
    bench.archive(
        1,
        **{
            "output.xml.gz": CUT,
            "tests/vpp/a.info.json": json.dumps(RESULT).encode(),
            "tests/vpp/b.info.json.gz": gzip.compress(
                json.dumps(
                    {**RESULT, "test_name_short": "other-mrr", "test_name_long": "tests.vpp.other-mrr"}
                ).encode()
            ),
        },
    )

    [taken] = bench.take(testbed="2n-clx").values()

    assert (IngestStatus.NEW, 2) == (taken.fate, taken.results), taken.note
    with Store.open(bench.store) as store:
        assert [datetime(2024, 1, 1, tzinfo=UTC)] == [run.started for run in store.runs("2n-clx")]


@pytest.mark.parametrize(
    ("output", "claimed", "testbed"),
    [
        (OUTPUT, {"likely_testbed": "3n-icx"}, "2n-clx"),
        (OUTPUT, {"testbed": "2n-clx"}, "2n-clx"),
        (SILENT, {"likely_testbed": "3n-icx"}, "3n-icx"),
        (SILENT, {"testbed": "3n-spr", "likely_testbed": "3n-icx"}, "3n-spr"),
    ],
    ids=["the output outweighs the job's name", "a person may say it too", "the job's name", "a person"],
)
def test_testbed_is_told_by_whoever_knows_best(
    output: bytes, claimed: dict[str, str], testbed: str, bench: Bench
) -> None:
    bench.archive(1, **{"output.xml": output})

    [taken] = bench.take(**claimed).values()

    assert IngestStatus.NEW is taken.fate, taken.note
    with Store.open(bench.store) as store:
        [run] = store.runs(testbed)
        assert {testbed} == {result.key["testbed"] for result in store.results(run)}


@pytest.mark.parametrize(
    ("output", "claimed", "reason"),
    [
        (OUTPUT, {"testbed": "3n-icx"}, "was run on testbed 2n-clx, but --testbed is 3n-icx"),
        (
            SILENT,
            {},
            "does not name the testbed of the run, and neither does job 'nightly'; give --testbed",
        ),
        (b"<robot/>", {}, "contains no performance test"),
        (b"{}", {}, "output.xml"),
    ],
)
def test_output_that_fits_no_run_is_refused(
    output: bytes, claimed: dict[str, str], reason: str, bench: Bench
) -> None:
    bench.archive(1, **{"output.xml": output})

    [taken] = bench.take(**claimed).values()

    assert IngestStatus.BROKEN is taken.fate
    assert reason in taken.note
    assert not stored(bench.store)


@pytest.mark.parametrize(
    ("samples", "fate"),
    [
        ("1e308, 1e308", IngestStatus.NEW),
        ("-1e300", IngestStatus.NEW),
        ("1e19, 1", IngestStatus.NEW),
        ("1e400, 1", IngestStatus.BROKEN),
        ("NaN, 1", IngestStatus.BROKEN),
    ],
)
def test_absurd_number_is_a_result_that_is_not_valid(bench: Bench, samples: str, fate: IngestStatus) -> None:
    text = json.dumps(RESULT).replace('"values": [1000000.0]', f'"values": [{samples}]')
    assert samples in text
    bench.archive(2, **{"tests/a.info.json": text.encode()})
    bench.archive(1, **{"output.xml": OUTPUT})

    taken = bench.take(testbed="2n-clx")

    assert {"nightly/2": fate, "nightly/1": IngestStatus.NEW} == {
        name: one.fate for name, one in taken.items()
    }
    with Store.open(bench.store) as store:
        for run in store.runs("2n-clx"):
            if run.build == 2:
                [result] = store.results(run)
                assert "is no measured value" in result.invalid
                assert math.isnan(result.value)


def test_what_nobody_foresaw_is_the_result_of_one_build(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that no reader could stand; the reader that fails on it is of this test."""
    read = run_ingest.enter

    def stumbles(store: Store, claim: Claim, *others: Any) -> Any:
        if claim.build == 2:
            raise ZeroDivisionError("float division by zero")
        return read(store, claim, *others)

    monkeypatch.setattr(run_ingest, "enter", stumbles)
    for build in (1, 2, 3):
        bench.archive(build, **{"output.xml": OUTPUT})

    taken = bench.take()

    assert {1: IngestStatus.NEW, 2: IngestStatus.BROKEN, 3: IngestStatus.NEW} == {
        n: taken[f"nightly/{n}"].fate for n in (1, 2, 3)
    }
    assert re.fullmatch(
        r"output\.xml: cannot be read: ZeroDivisionError: float division by zero "
        r"\(test_ingest\.py, line \d+\); this is a defect of perftrend",
        taken["nightly/2"].note,
    )


def test_dead_server_ends_it_after_some_builds(bench: Bench, server: Server) -> None:
    asked = []

    def builds() -> Iterator[tuple[ArchivedBuild, Claim]]:
        for number in range(1000):
            asked.append(number)
            build = ArchivedBuild("x", number, server.url, place="fault/forbidden/x")
            yield build, bench.claim(build)

    with Readers(bench.store, 0, 10**8) as readers:
        taker = BuildIngester(bench.fetcher._source, bench.fetcher, readers)
        with pytest.raises(ServiceError, match=r"builds in a row failed, the rest was not tried; .*403"):
            list(in_parallel(taker, builds(), 2, RateLimiter(1).stop))

    assert len(asked) < 20


def test_names_are_told_in_short() -> None:
    tally = Tally()
    for number in (1, 2, 3, 7, 9, 10):
        tally.add(IngestResult(f"team/nightly/{number}", IngestStatus.NEW, transferred=500_000, results=2))
    tally.add(IngestResult("weekly/1", IngestStatus.NEW))
    tally.add(IngestResult("weekly/2", IngestStatus.BROKEN))

    assert "team/nightly/1..3, team/nightly/7, team/nightly/9..10, weekly/1" == tally.names(IngestStatus.NEW)
    assert str(tally).startswith("7 new, 1 broken; 12 results, 3.0 MB in ")


@pytest.mark.parametrize(
    ("job", "testbed"),
    [
        ("perftrend-trending-nightly-2n-clx", "2n-clx"),
        ("team/mrr-daily-master-3n-icx", "3n-icx"),
        ("1n-veth", "1n-veth"),
        ("mrr-3n-icx-weekly", "3n-icx"),
        ("vpp-perf-mrr-daily-master", ""),
        ("dpdk-22n", ""),
    ],
)
def test_testbed_is_found_in_a_job_name(job: str, testbed: str) -> None:
    assert testbed == run_ingest.testbed_of(
        job, run_ingest.compile_testbed_pattern(run_ingest.DEFAULT_TESTBED_PATTERN)
    )


@pytest.mark.parametrize(
    ("expression", "testbed"),
    [("rack[0-9]", "rack7"), ("on-(rack)7", "rack"), ("(x)?(?P<testbed>k7)", "k7"), ("(x)?rack7", "")],
)
def test_pattern_of_a_person_finds_it(expression: str, testbed: str) -> None:
    assert testbed == run_ingest.testbed_of(
        "nightly-on-rack7", run_ingest.compile_testbed_pattern(expression)
    )


def test_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--testbed-pattern '\(': .*write one such as"):
        run_ingest.compile_testbed_pattern("(")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_terminal_shows_one_line_that_changes() -> None:
    terminal, tally = Terminal(), Tally()

    with FetchProgress(tally, terminal) as progress:
        tally.add(IngestResult("a/1", IngestStatus.NEW))
        progress.show_tally()
        progress.clear()
        progress.show_tally()

    assert "1 new" in terminal.getvalue()
    assert not terminal.getvalue().endswith("\n")


def test_log_gets_a_line_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    log, tally, now = io.StringIO(), Tally(), [0.0]
    monkeypatch.setattr("perftrend.console.time.monotonic", lambda: now[0])

    with FetchProgress(tally, log) as progress:
        for _ in range(240):
            now[0] += 0.5
            progress.show_tally()

    assert 2 == log.getvalue().count("\n")
