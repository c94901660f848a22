"""The report's folder: the page, and the document that its schema describes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from lxml import html

from perftrend.report.bisect import NamedCommit, document, files, sentence, write
from perftrend.settings import Settings
from perftrend.trigger import Trigger, parse
from tests.unit.report.bisect.reports import KINDS, name, slower

ADDRESSES = Settings.load(
    environment={},
    overrides={
        "dashboard.url": "https://perf.example.org",
        "gerrit.url": "https://review.example.org",
        "tags": ("mrrAND64b",),
    },
)
SCHEMA = Path(__file__).resolve().parents[4] / "docs" / "formats" / "bisection-report.schema.json"


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(SCHEMA.read_text())


@pytest.mark.parametrize("kind", KINDS)
def test_document_is_what_the_schema_says(kind: str, schema: Any) -> None:
    told = json.loads(json.dumps(document(KINDS[kind]), allow_nan=False))

    jsonschema.Draft202012Validator(schema).validate(told)


def test_schema_refuses_what_is_not_there(schema: Any) -> None:
    told = document(KINDS["slower"])
    told["culprits"][0]["strange"] = 1

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(told)


def test_document_has_all_samples_and_names_the_commit() -> None:
    told = document(KINDS["slower"])

    assert [[name(2)]] == [each["commits"] for each in told["culprits"]]
    assert [("acl", True, "regression"), ("ip4", False, "progression")] == sorted(
        (each["test"], each["affected"], each["direction"]) for each in told["culprits"][0]["tests"]
    )
    assert [3] * 8 == [len(test["samples"]) for each in told["measurements"] for test in each["tests"]]


@pytest.mark.parametrize("kind", KINDS)
def test_page_says_what_the_document_says(kind: str) -> None:
    page = files(KINDS[kind])["index.html"]

    assert sentence(KINDS[kind]).replace('"', "&#34;") in page


@pytest.mark.parametrize("kind", KINDS)
def test_page_needs_no_script_and_nothing_from_elsewhere(kind: str) -> None:
    page = files(KINDS[kind])["index.html"]

    assert "<script" not in page
    assert "style=" not in page
    assert {"style.css"} == set(re.findall(r'<link rel="stylesheet" href="([^"]*)"', page))
    assert [] == re.findall(r'src="[^"]*"', page)


def test_every_measurement_is_a_dot_and_the_change_is_marked() -> None:
    page = files(KINDS["slower"])["index.html"]

    assert 2 * 4 == page.count('<circle class="value"')
    assert 2 == page.count('<rect class="change"')
    assert "<title>000000000002 &#34;Commit number 2&#34;: 9.000 Mpps</title>" in page


def test_test_that_failed_is_a_cross() -> None:
    assert 1 == files(KINDS["failing"])["index.html"].count('<path class="failed"')


def test_values_are_drawn_from_left_to_right_and_higher_ones_higher() -> None:
    page = files(KINDS["slower"])["index.html"]
    first = page[page.index("<svg") : page.index("</svg>")]

    places = [tuple(map(float, each)) for each in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', first)]
    assert sorted(x for x, _ in places) == [x for x, _ in places]
    assert places[0][1] == places[1][1] < places[2][1] == places[3][1]


def test_axes_have_labels_that_differ() -> None:
    page = html.document_fromstring(files(KINDS["slower"])["index.html"])

    for picture in page.xpath("//figure/svg"):
        levels = picture.xpath("./text[@x='56']/text()")
        assert len(levels) >= 2
        assert len(levels) == len(set(levels))
    commits = [label.text_content() for label in page.xpath("//figure[1]/svg/text[not(@x='56')]")]
    assert ["000000000002", "000000000000", "000000000004"] == commits


def test_commits_and_the_dashboard_are_linked() -> None:
    page = html.document_fromstring(files(slower(settings=ADDRESSES))["index.html"])

    measured = page.xpath("//td/a/@href")
    assert [f"https://review.example.org/q/{name(number)}" for number in (0, 1, 2, 4)] == measured
    assert "https://perf.example.org/" in page.xpath("//dl//a/@href")


def test_command_and_comment_repeat_the_search() -> None:
    page = html.document_fromstring(files(slower(settings=ADDRESSES, command="./run bisect"))["index.html"])

    command, comment = page.xpath("//code[@class='copy']/text()")
    (requested,) = parse(comment)
    assert "./run bisect" == command
    assert isinstance(requested, Trigger)
    assert (name(0), ("mrrAND64b",)) == (requested.old, requested.include)


def test_tests_that_no_comment_can_name_are_in_the_command_alone() -> None:
    settings = ADDRESSES.model_copy(update={"tags": ("mrr OR $(reboot)",)})
    page = html.document_fromstring(files(slower(settings=settings, command="./run bisect"))["index.html"])

    assert ["./run bisect"] == page.xpath("//code[@class='copy']/text()")


def test_first_lines_of_the_diff_are_shown() -> None:
    page = files(KINDS["slower"])["index.html"]

    assert "-fast\n+    slow\n" in page


def test_what_others_wrote_is_escaped() -> None:
    bad = "<script>alert(1)</script>\x1b"
    names = {name(number): NamedCommit(bad, bad) for number in range(5)}

    page = files(slower(names=names, diffs={name(2): (bad,)}, command=bad, last_lines=(bad,)))["index.html"]

    assert "<script" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_report_replaces_an_older_one(tmp_path: Path) -> None:
    write(tmp_path / "report", KINDS["not built"])
    index = write(tmp_path / "report", KINDS["slower"])

    assert "slower" in index.read_text()
    assert {"index.html", "style.css", "bisection.json", "message.txt", "console.txt"} == {
        each.name for each in index.parent.iterdir()
    }
