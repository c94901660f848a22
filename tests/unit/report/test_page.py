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

from perftrend import report
from perftrend.errors import UsageError
from perftrend.model import Outcome, Run, Verdict
from perftrend.report import page

MakeVerdict = Callable[..., Verdict]
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

    assert ["64b-broken", "64b-never"] == [text(name) for name in document.findall(".//summary")]
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
    assert page.NAMES == {entry.name for entry in (tmp_path / "report").iterdir()}


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

    assert ["new"] == [text(name) for name in document.findall(".//summary")]
    assert ["0.js", "runs.js"] == sorted(f.name for f in (tmp_path / "report" / "data").iterdir())


def test_directory_with_other_files_is_refused(tmp_path: Path, run: Run, make_verdict: MakeVerdict) -> None:
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "notes.txt").touch()

    with pytest.raises(UsageError, match=r"notes\.txt"):
        write(tmp_path, run, make_verdict())
