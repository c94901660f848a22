"""The report's folder: the page, and the document that its schema describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from perftrend.model import NOT_VALID
from perftrend.perftest import Broken, BuildSide, PatchVerdict
from perftrend.report.perftest import document, files, write
from perftrend.settings import Settings
from tests.unit.report.perftest.reports import SUBJECT, compared, report

SCHEMA = Path(__file__).resolve().parents[4] / "docs" / "formats" / "perftest.schema.json"
SAME = (1e6, 1e6)
REPORTS = {
    "compared": compared({"a": SAME, "b": (1e6, 0.9e6)}),
    "failed": compared({"a": SAME, "b": SAME}, {"a": ("", "died"), "b": (f"{NOT_VALID}late", "")}, number=3),
    "broken": report(PatchVerdict(broken=Broken(BuildSide.PARENT, "make ended with 2", ("error",)))),
    "nothing": compared({}),
}


@pytest.fixture(scope="module")
def schema() -> Any:
    return json.loads(SCHEMA.read_text())


@pytest.mark.parametrize("name", REPORTS)
def test_document_is_what_the_schema_says(name: str, schema: Any) -> None:
    told = json.loads(json.dumps(document(REPORTS[name]), allow_nan=False))

    jsonschema.Draft202012Validator(schema).validate(told)


def test_schema_refuses_what_is_not_there(schema: Any) -> None:
    told = document(REPORTS["compared"])
    told["tests"][0]["strange"] = 1

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(schema).validate(told)


def test_document_keeps_all_samples_and_the_worst_test_first() -> None:
    told = document(REPORTS["compared"])

    assert ["b", "a"] == [test["test"] for test in told["tests"]]
    assert [5] * 8 == [len(each["samples"]) for each in told["tests"][0]["current"]["rounds"]]
    assert (-1, "regression") == (told["vote"], told["tests"][0]["finding"])


@pytest.mark.parametrize("name", REPORTS)
def test_page_says_what_the_document_says(name: str) -> None:
    found = files(REPORTS[name])

    assert f"<title>{document(REPORTS[name])['sentence']} " in found["index.html"]


def test_page_needs_no_script_and_nothing_from_elsewhere() -> None:
    page = files(REPORTS["compared"])["index.html"]

    assert "<script" not in page
    assert "style=" not in page
    assert ["style.css"] == [part.split('"')[0] for part in page.split('<link rel="stylesheet" href="')[1:]]


def test_names_from_tests_are_escaped() -> None:
    page = files(compared({"<script>alert(1)</script>": SAME}))["index.html"]

    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_report_replaces_an_older_one(tmp_path: Path) -> None:
    write(tmp_path / "report", REPORTS["broken"])
    index = write(tmp_path / "report", REPORTS["compared"])

    assert "slower" in index.read_text()
    assert set(files(REPORTS["compared"])) == {entry.name for entry in index.parent.iterdir()}


def test_commits_and_the_dashboard_are_linked() -> None:
    addresses = {"dashboard.url": "https://perf.example.org", "gerrit.url": "https://review.example.org"}
    settings = Settings.load(environment={}, overrides=addresses)

    page = files(compared({"acl": (10e6, 9e6)}, settings=settings))["index.html"]

    for commit in (SUBJECT.parent, SUBJECT.patch):
        assert f'<a href="https://review.example.org/q/{commit}">' in page
    assert '<a href="https://perf.example.org/">' in page
