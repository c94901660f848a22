"""The request of a build, stored for the case that it is started again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftrend.errors import ArchiveError, UsageError
from perftrend.perftest.runner import FILE, PatchComparison, find_earlier_build, read_comparison

ASKED = PatchComparison("1n-veth", "a" * 40, "b" * 40, ("one", "two"), {"profile": "command 12"}, 7, 2)


def test_same_question_may_be_asked_again(tmp_path: Path) -> None:
    folder = tmp_path / "job" / "3"

    ASKED.save(folder)
    ASKED.save(folder)

    assert ASKED == read_comparison(folder)
    assert [FILE] == [entry.name for entry in folder.iterdir()]


@pytest.mark.parametrize(
    ("name", "value"), [("patch", "c" * 40), ("tests", ("one",)), ("how", {"profile": "command 13"})]
)
def test_rounds_of_another_question_do_not_count(name: str, value: object, tmp_path: Path) -> None:
    ASKED.save(tmp_path)

    with pytest.raises(UsageError, match=rf"rounds of another comparison \({name} differs\)"):
        replace(ASKED, **{name: value}).save(tmp_path)
    assert ASKED == read_comparison(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", "[1", '{"testbed": 1}'])
def test_damaged_record_is_told_in_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)

    with pytest.raises(ArchiveError, match=r"asked\.json is not a valid request"):
        read_comparison(tmp_path)


def test_build_that_has_not_begun_was_asked_nothing(tmp_path: Path) -> None:
    assert read_comparison(tmp_path) is None


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (replace(ASKED, request="r1"), 10),
        (replace(ASKED, request="r2"), 11),
        (replace(ASKED, request="r3"), None),
        (replace(ASKED, request="r1", how={"profile": "command 13"}), None),
        (ASKED, None),
    ],
    ids=["newest of two", "of another comment", "not begun", "another question", "no comment"],
)
def test_build_of_a_request_is_found_by_it(
    asked: PatchComparison, expected: int | None, tmp_path: Path
) -> None:
    for number, request in ((9, "r1"), (10, "r1"), (11, "r2"), (12, "")):
        replace(ASKED, request=request).save(tmp_path / str(number))
    (tmp_path / "13").mkdir()
    (tmp_path / "14").mkdir()
    (tmp_path / "14" / FILE).write_text("{")
    (tmp_path / "notes").mkdir()

    assert expected == find_earlier_build(tmp_path, asked)


def test_who_asks_does_not_change_the_question(tmp_path: Path) -> None:
    ASKED.save(tmp_path)

    replace(ASKED, request="r1").save(tmp_path)

    assert (ASKED, "") == ((kept := read_comparison(tmp_path)), kept.request if kept else None)
