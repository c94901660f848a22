"""The message that a bisection posts on the change of the culprit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doubles import gerrit
from tests.unit.cli.bisect.conftest import Review


def guilty(review: Review, number: int, revision: str) -> dict[str, Any]:
    """Return what the double tells of the change of a commit."""
    told = gerrit.change(number)
    told["revisions"] = {revision: {**told["revisions"][gerrit.REVISION], "_number": 2}}
    review.double.files[f"/changes/{number}"] = {**told, "messages": []}
    return told


def accusations(review: Review) -> list[tuple[str, str]]:
    """Return where something was said under another change, and what."""
    return [
        (each.path.removeprefix("/a"), each.body["message"])
        for each in review.double.requests
        if each.method == "POST" and "/changes/1/" not in each.path
    ]


def test_guilty_change_is_told_where_that_is_wanted(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_NOTIFY_CULPRIT", "true")
    review.push(100, 100, 90, 90)
    commit = review.place.product.hashes[2]
    review.double.pages = [[guilty(review, 5, commit)]]

    assert 1 == review.search().exit_code

    [(path, text)] = accusations(review)
    assert "/changes/5/revisions/2/review" == path
    assert text.startswith(
        f"This change, as commit {commit[:12]}, made the only test slower by 10 %, with a "
    )
    assert f"Requested on {review.double.url}/c/router/+/1" in text
    asked = [each.query["q"][0] for each in review.double.requests if each.path.endswith("/changes/")]
    assert [f'commit:"{commit}" project:"router"'] == asked
    assert all("labels" not in each for each in review.double.posted)


@pytest.mark.parametrize(
    ("wanted", "levels", "number"),
    [("false", (100, 100, 90, 90), 5), ("true", (100, 100, 120, 120), 5), ("true", (100, 100, 90), 1)],
    ids=["not wanted", "faster", "asked on it"],
)
def test_nobody_else_is_told_who_need_not_know(
    review: Review, wanted: str, levels: tuple[float, ...], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_NOTIFY_CULPRIT", wanted)
    review.push(*levels)
    if number != 1:
        guilty(review, number, review.place.product.hashes[2])
    review.double.pages = [[dict(review.double.files[f"/changes/{number}"])]]

    review.search()

    assert [] == accusations(review)
    assert 2 == len(review.all_texts)


def test_guilty_commit_without_a_change_fails_nothing(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_NOTIFY_CULPRIT", "true")
    review.push(100, 100, 90, 90)
    review.double.pages = [[]]

    ended = review.search()

    assert (1, []) == (ended.exit_code, accusations(review))
    assert f"no change in Gerrit is known for {review.place.product.hashes[2][:12]}" in ended.err


def test_answer_that_could_not_be_posted_is_posted_by_asking_again(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 100, 110)
    usual = gerrit.Handler.tell

    def refuse(self: Any, path: str, body: Any) -> None:
        self.send(500, b"no") if path.endswith("/review") else usual(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(gerrit.Handler, "tell", refuse)
        refused = review.search()
    measured = len(review.place.measured)

    again = review.search()

    assert "the verdict is not posted: " in refused.err
    assert (3, 0) == (refused.exit_code, again.exit_code)
    assert "made the only test faster" in refused.out.splitlines()[-1]
    assert "made the only test faster" in review.texts[-1]
    assert measured == len(review.place.measured)


def test_patch_set_that_was_pushed_meanwhile_is_not_searched(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ref of the patch set holds another commit than Gerrit told of."""
    review.push(100, 90)
    review.place.product.history.git("update-ref", "refs/changes/01/1/1", review.place.product.hashes[0])

    ended = review.search()

    assert 3 == ended.exit_code
    assert "is project.repository that of the change?" in ended.err
    assert [] == review.place.measured
