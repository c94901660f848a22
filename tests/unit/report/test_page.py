from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import html

from perftrend import message, report
from perftrend.errors import UsageError
from perftrend.measurement import Interval, Latency, LoadLatency, Measurement, Phase, Step, Trial
from perftrend.model import Better, Change, Direction, Outcome, Result, Run, Status, Verdict
from perftrend.report import page
from perftrend.report.folder import NAMES
from perftrend.settings import Settings
from perftrend.text import NOTHING
from perftrend.trigger import Trigger, parse

MakeVerdict = Callable[..., Verdict]
ADDRESSES = Settings.load(
    environment={},
    overrides={
        "dashboard.url": "https://perf.example.org",
        "gerrit.url": "https://review.example.org",
        "jenkins.url": "https://ci.example.org",
    },
)
HOSTILE = "</script><img src=x onerror=alert(1)>\"'`{{7*7}}../../etc/passwd\x00"


def write(directory: Path, run: Run, *verdicts: Verdict, **options: Any) -> html.HtmlElement:
    index = report.write(directory / "report", verdicts, run=run, method="MDL", window=30, **options)
    return html.document_fromstring(index.read_text("utf-8"))


def text(element: html.HtmlElement) -> str:
    return " ".join(element.text_content().split())


def test_heading_says_the_verdict_of_the_job(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict())

    assert "Fail 1 regression of 1 test" == text(document.find(".//h1"))


def test_header_says_what_was_analysed_and_how(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    header = text(write(tmp_path, run, make_verdict(), notices=["1n-loopback was used"]).find(".//header"))

    for part in ("trending/6", "2n-clx", "2026-03-07 02:00 to 2026-03-07 03:00 UTC", f"{6:040x}"):
        assert part in header
    for part in ("method MDL", "window 30 runs", "1n-loopback was used"):
        assert part in header
    assert "SIMULATED" not in header


def test_run_is_linked(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict(), settings=ADDRESSES)

    (link,) = document.xpath("//header//a[@href='https://ci.example.org/job/trending/6/']")
    assert "trending/6" == text(link)


def test_dashboard_is_linked_with_the_plot_and_the_item_of_a_change(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    document = write(tmp_path, run, make_verdict(), settings=ADDRESSES)

    trace = make_verdict().series.key.hash
    assert [
        "https://perf.example.org/",
        f"https://perf.example.org/traces/{trace}",
        f"https://perf.example.org/traces/{trace}/item?commit={'0' * 12}",
        f"https://perf.example.org/traces/{trace}",
    ] == [address for address in document.xpath("//@href") if address.startswith("https://perf.")]


def test_builds_have_their_commits(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict(), settings=ADDRESSES)

    rows = [text(row) for row in document.xpath("//details[@id='builds']//tbody/tr")]
    assert "2026-03-07 02:006 000000000000trending" == rows[0]
    assert 6 == len(rows)
    groups = [text(cell) for cell in document.xpath("//table[@class='groups-table'][1]/tbody/tr/td[2]")]
    assert "4 000000000000" == groups[0]
    commits = document.xpath("//a[code]/@href")
    assert f"https://review.example.org/q/{4:040x}" in commits
    assert "https://ci.example.org/job/trending/4/" in document.xpath("//@href")


def test_change_has_its_bisection(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    change = replace(make_verdict().changes[0], last_before=1, first_after=4)
    verdict = make_verdict("64b-1c-ethip4-ip4base-mrr", changes=(change,))
    document = write(tmp_path, run, verdict, settings=ADDRESSES)

    (steps,) = document.xpath("//div[@class='next-steps']")
    assert "−20.0 % regression between builds 2 000000000000 and 5 000000000000:" in text(steps)  # noqa: RUF001
    comment, command = [text(code) for code in steps.xpath(".//code[@class='copy']")]
    (requested,) = parse(comment)
    assert isinstance(requested, Trigger)
    assert (f"{2:040x}", "2n-clx") == (requested.old, requested.testbed)
    assert command.endswith(
        f"bisect --testbed 2n-clx --old {2:040x} --new {5:040x} --tags mrrAND64bAND1cANDethip4-ip4base"
    )
    assert f"https://review.example.org/q/{5:040x}" in steps.xpath(".//@href")

    (told,) = json.loads((tmp_path / "report" / "report.json").read_text())["tests"][0]["changes"]
    assert (comment, command) == (told["bisect"]["comment"], told["bisect"]["command"])
    assert told["plot"].startswith("https://perf.example.org/")


def test_change_between_builds_of_one_commit_is_not_bisected(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    verdict = make_verdict()
    runs = tuple(replace(each, versions={"device": "0123abc"}) for each in verdict.series.runs)
    same = replace(verdict, series=replace(verdict.series, runs=runs))

    (steps,) = write(tmp_path, run, same, settings=ADDRESSES).xpath("//div[@class='next-steps']")

    assert "Both builds measured the same commit" in text(steps)
    assert [] == steps.xpath(".//code[@class='copy']")


def test_what_else_differs_is_beside_the_change(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    verdict = make_verdict()
    runs = tuple(
        replace(each, environment={"dut: kernel": "6.1.18" if at < 3 else "6.1.20 <new>", "dut: cores": "8"})
        for at, each in enumerate(verdict.series.runs)
    )
    changed = replace(verdict, series=replace(verdict.series, runs=runs))

    (steps,) = write(tmp_path, run, changed).xpath("//div[@class='next-steps']")

    assert "Also different: dut: kernel 6.1.18 → 6.1.20 <new>" in text(steps)
    (change,) = json.loads((tmp_path / "report" / "report.json").read_text())["tests"][0]["changes"]
    assert [{"name": "dut: kernel", "before": "6.1.18", "after": "6.1.20 <new>"}] == change["environment"]


def test_without_addresses_the_commits_are_there(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict())

    assert [] == document.xpath("//a[starts-with(@href, 'http')]")
    assert f"{4:040x}" in document.xpath("//table[@class='groups-table']//code/@title")


def test_large_picture_has_axes_with_labels_that_differ(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    tiny = make_verdict("tiny", samples=(100.0, 100.2, 100.1, 99.9, 99.8, 100.0), groups=(), changes=())
    document = write(tmp_path, run, make_verdict(), tiny)

    pictures = document.xpath("//div[@class='chart']")
    assert 2 == len(pictures)
    for picture in pictures:
        levels = [label.text for label in picture.xpath("./svg[@class='levels']/text")]
        assert len(levels) >= 3
        assert len(levels) == len(set(levels))
    builds = [text(group) for group in pictures[0].xpath("./svg[@class='builds']/g")]
    assert ["1000000002026-03-02", "6000000002026-03-07"] == [builds[0], builds[-1]]


def test_progression_is_not_called_a_regression(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    change = Change(3, 8e6, 28.552e6, Direction.PROGRESSION)
    verdict = make_verdict(
        outcome=Outcome.PROGRESSION, reason="256.9 % above", long_term_change=2.569, changes=(change,)
    )

    shown = text(write(tmp_path, run, verdict, settings=ADDRESSES).find(".//tbody"))

    assert "+256.9 % progression" in shown
    assert "regression" not in shown.lower()


def test_simulated_run_says_so(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, replace(run, simulated=True), make_verdict())

    assert "SIMULATED" in text(document.find(".//header"))
    assert document.find(".//title").text.startswith("SIMULATED")


def test_row_has_the_columns_of_the_table(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict())

    cells = [text(cell) for cell in document.xpath("//tr[@class='row']/*")]
    assert [
        "64b-ip4baseip4",
        "64B",
        "MRR",
        "8.000",
        "3",
        "\N{MINUS SIGN}20.0 %",
        "",
        "▼ regressionThe trend fell",
    ] == cells


def test_failed_and_missing_tests_are_there_by_name(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict, missing: Verdict
) -> None:
    failed = make_verdict("64b-broken", Outcome.FAILED, reason="first line\nsecond line")

    document = write(tmp_path, run, missing, failed)

    assert ["64b-broken", "64b-never"] == [text(name) for name in document.xpath("//tr//summary")]
    assert "first line\nsecond line" in document.text_content()


def test_page_needs_no_script_no_inline_style_and_no_network(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    document = write(tmp_path, run, make_verdict())

    assert [] == document.xpath("//style | //@style | //script[not(@src)] | //@*[starts-with(name(), 'on')]")
    addresses = document.xpath("//@href | //@src")
    assert addresses
    assert not [address for address in addresses if "//" in address]


def test_everything_that_the_page_names_is_there(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    document = write(tmp_path, run, make_verdict())

    for address in document.xpath("//link/@href | //script/@src"):
        assert (tmp_path / "report" / address).is_file()
    assert {entry.name for entry in (tmp_path / "report").iterdir()} <= NAMES


def test_plotly_is_there_once_with_its_licence(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    write(tmp_path, run, make_verdict())

    holders = [f.name for f in (tmp_path / "report").rglob("*.js") if "Plotly, Inc." in f.read_text("utf-8")]
    assert ["plotly.min.js"] == holders
    assert (
        "Licensed under the MIT license" in (tmp_path / "report" / "plotly.min.js").read_text("utf-8")[:500]
    )


def test_hostile_texts_stay_texts(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    verdict = make_verdict(HOSTILE, reason=HOSTILE, frame=HOSTILE, metric=HOSTILE, unit=HOSTILE)
    where = replace(run, job=HOSTILE, versions={HOSTILE: HOSTILE})

    document = write(tmp_path, where, verdict, title=HOSTILE, notices=[HOSTILE])

    assert [] == document.xpath("//img | //@onerror")
    assert 1 == len(document.findall(".//script"))
    shown = HOSTILE.replace("\x00", "\N{REPLACEMENT CHARACTER}")
    assert shown == document.find(".//summary").text_content()
    assert "49" not in document.find(".//summary").text_content()


def test_data_files_cannot_end_a_script(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    verdict = make_verdict(HOSTILE, invalid={5: (1.0, HOSTILE)}, unit=HOSTILE)

    write(tmp_path, run, verdict)

    data = "".join(file.read_text("utf-8") for file in (tmp_path / "report" / "data").iterdir())
    assert not set("<>&") & set(data)


def test_no_file_is_named_by_a_test(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    write(tmp_path, run, make_verdict("../../outside"), make_verdict(HOSTILE))

    assert ["0.js", "runs.js"] == sorted(f.name for f in (tmp_path / "report" / "data").iterdir())
    assert ["report"] == [entry.name for entry in tmp_path.iterdir()]


def test_data_are_spread_over_files(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    count = page.TESTS_PER_FILE + 1

    write(tmp_path, run, *[make_verdict(f"test-{number}") for number in range(count)])

    last = (tmp_path / "report" / "data" / "1.js").read_text("utf-8")
    match = re.fullmatch(r"perftrend\.receiveTests\((\d+),(.*)\);\n", last)
    assert match
    assert page.TESTS_PER_FILE == int(match[1])
    assert [[10.1e6, 10.0e6, 9.9e6, 8.1e6, 8.0e6, 7.9e6]] == [test["values"] for test in json.loads(match[2])]


def test_json_beside_the_page_is_the_document(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    write(tmp_path, run, make_verdict())

    expected = report.as_json([make_verdict()], run=run, method="MDL", window=30)
    assert expected == (tmp_path / "report" / "report.json").read_text("utf-8")


def test_nothing_analysed_is_said_and_is_no_pass(tmp_path: Path, run: Run) -> None:
    assert "Fail No test was analysed" == text(write(tmp_path, run).find(".//h1"))


def test_full_disk_leaves_the_old_report(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, run, make_verdict("old"))

    def full(path: Path, content: str) -> None:
        if path.name == "plotly.min.js":
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        path.write_text(content, encoding="utf-8")

    monkeypatch.setattr(page, "_put", full)
    with pytest.raises(OSError, match="No space left"):
        write(tmp_path, run, make_verdict("new"))

    assert "old" in (tmp_path / "report" / "index.html").read_text("utf-8")
    assert ["report"] == [entry.name for entry in tmp_path.iterdir()]


def test_second_report_takes_the_place_of_the_first(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    write(tmp_path, run, *[make_verdict(f"old-{number}") for number in range(page.TESTS_PER_FILE + 1)])

    document = write(tmp_path, run, make_verdict("new"))

    assert ["new"] == [text(name) for name in document.xpath("//tr//summary")]
    assert ["0.js", "runs.js"] == sorted(f.name for f in (tmp_path / "report" / "data").iterdir())


def test_directory_with_other_files_is_refused(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "notes.txt").touch()

    with pytest.raises(UsageError, match=r"notes\.txt"):
        write(tmp_path, run, make_verdict())


def found_by_search(
    run: Run, verdicts: list[Verdict], *, rate: float = 8e6, latency: LoadLatency | None = None
) -> list[Result]:
    """Return results that one search gave, a trial long."""
    trial = Trial(rate, 30.0, 30.0, 100, 100)
    known = (Interval(rate, 1.01 * rate),) * 2
    measurement = Measurement(
        "ndrpdr",
        run.testbed,
        "64B",
        64,
        run.started,
        run.finished,
        trials=(trial,),
        loss_ratios={"ndr": 0.0, "pdr": 0.005},
        phases=(Phase("final", 30.0, 0.01, (Step(trial, "too wide", known),)),),
        latency={"latency_50": latency} if latency else {},
    )
    details = message.document(measurement)
    return [
        Result(verdict.series.key, "pps", Better.HIGHER, Status.PASS, details=dict(details))
        for verdict in verdicts
    ]


def test_each_test_with_a_search_has_its_graph(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    ndr, pdr, other, mrr = (make_verdict(test, metric="any") for test in ("1-ndr", "1-pdr", "2-ndr", "3-mrr"))
    results = found_by_search(run, [ndr, pdr]) + found_by_search(run, [other], rate=9e6)

    document = write(tmp_path, run, ndr, pdr, other, mrr, results=results)

    tests = document.xpath("//tbody[starts-with(@class, 'test')]")
    assert [
        ["data/search-0.svg"],
        ["data/search-0.svg"],
        ["data/search-1.svg"],
        [],
    ] == [test.xpath(".//figure[@class='search-graph']/a/@href") for test in tests]
    assert "1 trials in 1 phases took 30.0 s; NDR 8.0000 to 8.0800" in text(tests[0])
    pictures = sorted(file.name for file in (tmp_path / "report" / "data").glob("*.svg"))
    assert ["search-0.svg", "search-1.svg"] == pictures
    style = (tmp_path / "report" / "style.css").read_text("utf-8")
    assert [".search-0 { background-image: url(data/search-0.svg); }"] == re.findall(
        r"^\.search-0 .*", style, re.MULTILINE
    )


def test_search_with_latency_has_a_graph_of_it(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    latency = LoadLatency(4e6, (Latency(5.0, 20.0, 90.0, ((10.0, 9), (100.0, 1))),))
    ndr, pdr = make_verdict("1-ndr"), make_verdict("1-pdr")

    document = write(tmp_path, run, ndr, pdr, results=found_by_search(run, [ndr, pdr], latency=latency))

    assert ["data/search-0.svg", "data/latency-0.svg"] * 2 == document.xpath(
        "//figure[@class='search-graph']/a/@href"
    )
    assert "The latency: at 50 % of PDR 20 us on average" in text(document)
    assert (tmp_path / "report" / "data" / "latency-0.svg").exists()
    style = (tmp_path / "report" / "style.css").read_text("utf-8")
    assert ".latency-0 { background-image: url(data/latency-0.svg); }" in style


def test_latency_without_histograms_has_no_graph(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    verdict = make_verdict()
    results = found_by_search(run, [verdict], latency=LoadLatency(0.0, invalid="PDR is not valid"))

    document = write(tmp_path, run, verdict, results=results)

    assert ["data/search-0.svg"] == document.xpath("//figure[@class='search-graph']/a/@href")


def test_search_of_another_form_leaves_the_report_whole(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    (result,) = found_by_search(run, [make_verdict()])
    newer = replace(result, details={**result.details, "schema": 99})

    document = write(tmp_path, run, make_verdict(), results=[newer])

    assert [] == document.xpath("//figure[@class='search-graph']")
    assert ["64b-ip4base"] == [text(name) for name in document.xpath("//tr//summary")]


def test_json_has_the_way_of_each_search(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    verdicts = [make_verdict("1-ndr"), make_verdict("2-mrr")]
    (result,) = found_by_search(run, verdicts[:1])

    told = json.loads(report.as_json(verdicts, run=run, method="MDL", window=30, results=[result]))

    search, none = (test["search"] for test in told["tests"])
    assert {name: result.details[name] for name in ("loss_ratios", "trials", "phases")} == search
    assert none is None
    assert [None, None] == [test["latency"] for test in told["tests"]]


def test_json_has_the_latency_of_each_search(run: Run, make_verdict: MakeVerdict) -> None:
    verdicts = [make_verdict("1-ndr")]
    results = found_by_search(run, verdicts, latency=LoadLatency(4e6, (Latency(5.0, 20.0, 90.0),)))

    told = json.loads(report.as_json(verdicts, run=run, method="MDL", window=30, results=results))

    assert results[0].details["latency"] == told["tests"][0]["latency"]


def test_drill_down_tells_the_changes_and_the_owners(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    change = Change(
        3, 10e6, 8e6, Direction.REGRESSION, confidence=0.99, last_before=2, first_after=3, pattern="ordinary"
    )
    document = write(tmp_path, run, make_verdict(changes=(change,), owners=("ip",), mail=("ip@example.org",)))

    (row,) = document.xpath("//table[contains(@class, 'changes-table')]/tbody/tr")
    assert [
        "2026-03-05",
        "4 000000000000",
        "3 000000000000 and 4 000000000000",
        "\N{MINUS SIGN}20.0 %",
        NOTHING,
        "99.00 %",
        "ordinary",
        "regression",
    ] == [text(cell) for cell in row]
    parameters = text(document.xpath("//tr[@class='more']//dl")[0])
    assert "owners ip" in parameters
    assert "mail ip@example.org" in parameters


def test_test_without_changes_has_no_table_of_them(
    tmp_path: Path, run: Run, make_verdict: MakeVerdict
) -> None:
    document = write(tmp_path, run, make_verdict(changes=()))

    assert [] == document.xpath("//table[contains(@class, 'changes-table')]")
