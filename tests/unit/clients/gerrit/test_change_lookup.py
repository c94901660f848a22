"""The change of a commit is found if it is unambiguous, and never guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from perftrend.clients.gerrit import Gerrit
from perftrend.errors import UsageError
from tests.doubles.gerrit import REVISION, GerritDouble, change

Client = Callable[..., Gerrit]
COMMIT = "c" * 40
CHANGE_ID = f"I{'d' * 40}"


def known(double: GerritDouble, number: int, **patch_sets: int) -> dict[str, Any]:
    """Let the double know a change, with its patch sets by the first letter of their hashes."""
    told = change(number)
    [one] = told["revisions"].values()
    told["revisions"] = {letter * 40: {**one, "_number": count} for letter, count in patch_sets.items()}
    double.files[f"/changes/{number}"] = told
    return told


def queries(double: GerritDouble) -> list[str]:
    return [each.query["q"][0] for each in double.requests if each.path.endswith("/changes/")]


def test_commit_is_found_as_the_patch_set_that_it_is(client: Client, double: GerritDouble) -> None:
    double.pages = [[known(double, 5, c=2, e=3)]]

    found = client().patch_set_of(COMMIT, project="net/router", change_id=CHANGE_ID)

    assert found
    assert (5, 2, COMMIT) == (found[0].number, found[1].number, found[1].revision)
    assert [f'commit:"{COMMIT}" project:"net/router"'] == queries(double)


def test_commit_that_gerrit_does_not_know_is_found_by_its_change_id(
    client: Client, double: GerritDouble
) -> None:
    double.pages = [[], [change(6)]]

    found = client().patch_set_of(COMMIT, project="router", change_id=CHANGE_ID)

    assert found
    assert (6, REVISION) == (found[0].number, found[1].revision)
    assert f'change:{CHANGE_ID} project:"router"' == queries(double)[-1]


def test_of_several_branches_that_of_the_question_is_meant(client: Client, double: GerritDouble) -> None:
    double.pages = [[], [change(6), change(7, branch="stable")]]

    found = client().patch_set_of(COMMIT, project="router", change_id=CHANGE_ID, branch="stable")

    assert found
    assert 7 == found[0].number


@pytest.mark.parametrize(
    ("change_id", "pages"),
    [
        (CHANGE_ID, [[], []]),
        (CHANGE_ID, [[], [change(6), change(7)]]),
        ("", [[]]),
        ("I12 OR owner:self", [[]]),
    ],
    ids=["unknown", "ambiguous", "no line", "no Change-Id"],
)
def test_nothing_is_guessed(
    client: Client, double: GerritDouble, change_id: str, pages: list[list[dict[str, Any]]]
) -> None:
    double.pages = [list(page) for page in pages]

    assert client().patch_set_of(COMMIT, project="router", change_id=change_id, branch="other") is None
    assert len(pages) == len(queries(double))


def test_project_that_would_end_the_query_is_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="cannot be used in a query"):
        client().patch_set_of(COMMIT, project='router" OR "x')
