"""The responses of Gerrit are read in order, page by page, up to the limits."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, timezone
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.clients.gerrit import (
    PATCH_SET_LEVEL,
    Account,
    CommentAdded,
    EventsDropped,
    Gerrit,
    TooLargeError,
    client,
)
from perftrend.clients.gerrit.changes import read_change, read_comments
from perftrend.clients.gerrit.stream import read_event
from perftrend.errors import SettingsError, UsageError
from tests.doubles.gerrit import ACCOUNT, MOMENT, GerritDouble, change, event

Client = Callable[..., Gerrit]
SINCE = datetime(2026, 3, 2, 18, 0, 0, 250_000, tzinfo=UTC)


def pages(double: GerritDouble, *numbers: list[int]) -> None:
    for number, page in enumerate(numbers, 1):
        listed = [change(each) for each in page]
        if number < len(numbers):
            listed[-1]["_more_changes"] = True
        double.pages.append(listed)


def test_changes_are_asked_for_page_by_page_and_told_once(client: Client, double: GerritDouble) -> None:
    pages(double, [5, 4], [4, 3], [2])

    assert [5, 4, 3, 2] == [each.number for each in client().changes_updated_since(SINCE)]
    assert [["0"], ["2"], ["4"]] == [each.query["S"] for each in double.requests]


def test_no_more_changes_are_asked_for_than_are_taken(client: Client, double: GerritDouble) -> None:
    pages(double, [5, 4], [3])

    assert 5 == next(client().changes_updated_since(SINCE)).number
    assert 1 == len(double.requests)


def test_more_changes_than_there_may_be_are_told_after_the_last(client: Client, double: GerritDouble) -> None:
    pages(double, [5, 4], [3])
    changes = client().changes_updated_since(SINCE, maximum=2)

    assert [5, 4] == [each.number for each in islice(changes, 2)]
    with pytest.raises(TooLargeError, match="more than 2 changes were updated since 2026-03-02 18:00:00 UTC"):
        next(changes)


def test_as_many_changes_as_there_may_be_are_no_error(client: Client, double: GerritDouble) -> None:
    pages(double, [5, 4])

    assert 2 == len(list(client().changes_updated_since(SINCE, maximum=2)))


def test_server_that_says_more_without_telling_it_is_not_asked_for_ever(
    client: Client, double: GerritDouble
) -> None:
    double.pages.extend([[change(1, _more_changes=True)], []])

    assert 1 == len(list(client().changes_updated_since(SINCE)))


def test_query_is_in_utc_and_names_projects(client: Client, double: GerritDouble) -> None:
    pages(double, [1])
    east = SINCE.astimezone(timezone(timedelta(hours=9)))

    list(client().changes_updated_since(east, projects=["router", "a b"]))

    asked = double.requests[0].query["q"]
    assert ['after:"2026-03-02 18:00:00" (project:"router" OR project:"a b")'] == asked


@pytest.mark.parametrize("name", ['a"b', "a\\", "a\nb"])
def test_project_that_would_lead_out_of_its_quotes_is_refused(client: Client, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be used in a query"):
        list(client().changes_updated_since(SINCE, projects=[name]))


def test_moment_without_a_time_zone_is_refused(client: Client) -> None:
    with pytest.raises(UsageError, match="no time zone"):
        list(client().changes_updated_since(SINCE.replace(tzinfo=None)))


def test_comments_of_the_same_second_are_told_and_earlier_ones_not(
    client: Client, double: GerritDouble
) -> None:
    pages(double, [1])
    for moment in ("2026-03-02 17:59:59.000000000", MOMENT):
        double.messages.append({"id": moment, "date": moment, "message": "x"})

    [(_, new)] = client().changes_commented_since(SINCE)

    assert [MOMENT] == [each.identity for each in new]


def test_change_that_was_updated_otherwise_is_left_out(client: Client, double: GerritDouble) -> None:
    pages(double, [1])

    assert [] == list(client().changes_commented_since(SINCE))


def told(identity: str, moment: str = MOMENT, **others: Any) -> dict[str, Any]:
    return {"id": identity, "message": "x", "author": ACCOUNT, "date": moment, "updated": moment, **others}


def test_comments_follow_their_message_in_the_order_of_time() -> None:
    messages = [told("m2"), told("m1"), told("m3", "2026-03-02 18:00:01.5")]
    by_path = {
        "a.c": [told("c1", change_message_id="m1", line=3), told("c2", change_message_id="m2")],
        PATCH_SET_LEVEL: [told("c3", "2026-03-02 17:00:00", change_message_id="m0")],
    }

    found = read_comments(messages, by_path)

    assert ["c3", "m2", "c2", "m1", "c1", "m3"] == [each.identity for each in found]
    assert [False, False, True, False, True, False] == [each.is_on_file for each in found]
    assert [False, True, False, True, False, True] == [each.is_message for each in found]
    assert [None, None, None, None, 3, None] == [each.line for each in found]


def test_program_is_known_by_its_tag_and_gerrit_by_its_missing_name() -> None:
    messages = [told("m", tag="autogenerated:zuul:check"), told("n", author=None), told("o", tag="x")]

    bot, gerrit, other = read_comments(messages, {})

    assert [True, False, False] == [each.is_autogenerated for each in (bot, gerrit, other)]
    assert gerrit.author is None


def test_files_are_told_without_what_is_none(client: Client, double: GerritDouble) -> None:
    double.files["/changes/1/revisions/1/files"] = {
        "/COMMIT_MSG": {}, "b.c": {"status": "R", "old_path": "a.c"}, "a b.c": {},
    }  # fmt: skip

    files = client().files(1, 1)

    assert [("a b.c", "M", ""), ("b.c", "R", "a.c")] == [
        (file.path, file.status, file.old_path) for file in files
    ]


@pytest.mark.parametrize("name", ["self", "7", "dev"])
def test_groups_are_those_of_the_account_whatever_its_name(
    client: Client, double: GerritDouble, name: str
) -> None:
    """A path with such a name in it would mean the user itself, or the account of that number."""
    double.files["/accounts/"] = [{"_account_id": 8, "username": name}]
    double.files["/accounts/8/groups"] = [{"id": "global%3ARegistered-Users", "name": "Registered Users"}]

    [group] = client().groups(Account(None, name))

    assert ("global:Registered-Users", "Registered Users") == (group.identity, group.name)
    assert [f'username:"{name}"'] == double.requests[0].query["q"]


@pytest.mark.parametrize(
    "found",
    [
        [],
        [{"_account_id": 8, "username": "another"}],
        [{"_account_id": each, "username": "dev"} for each in (8, 9)],
    ],
)
def test_account_that_is_not_found_for_certain_has_no_groups(
    client: Client, double: GerritDouble, found: list[dict[str, Any]]
) -> None:
    double.files["/accounts/"] = found

    assert () == client().groups(Account(None, "dev"))
    assert () == client().groups(Account(None))


def test_groups_that_are_not_there_are_refused_with_the_nearest(client: Client, double: GerritDouble) -> None:
    double.files["/groups/"] = {"Data plane": {"id": "abc"}, "Committers": {"id": "def"}}

    client(user="me", token="x").check_groups(["Data plane", "def"])  # noqa: S106 - it opens nothing
    with pytest.raises(SettingsError, match="sees no group 'Comitters'; did you mean 'Committers'"):
        client().check_groups(["Data plane", "Comitters"])


def test_page_of_a_change_is_named(client: Client, double: GerritDouble) -> None:
    double.files["/changes/1"] = change(1, project="fd io/vpp")
    gerrit = client()

    assert f"{double.url}/c/fd%20io/vpp/+/1" == gerrit.page(gerrit.change(1))


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (Account(7), Account(7, "x"), True),
        (Account(7, "x"), Account(8, "x"), False),
        (Account(None, "x"), Account(8, "x"), True),
        (Account(None), Account(None), False),
    ],
)
def test_accounts_are_one_by_number_or_else_by_name(one: Account, other: Account, same: bool) -> None:
    assert same is one.is_same(other)


# ---- events


def line(**others: Any) -> bytes:
    return json.dumps(event(**others)).encode()


def test_event_of_a_comment_is_read() -> None:
    found = read_event(line())

    assert isinstance(found, CommentAdded)
    assert ("router", "master", 1, 1) == (found.project, found.branch, found.change, found.patch_set)
    assert ("refs/changes/01/1/1", ("b" * 40,)) == (found.ref, found.parents)
    assert ("dev", {"Performance": -1}) == (found.author.username, found.approvals)
    assert datetime(2026, 3, 2, 18, tzinfo=UTC) == found.written


def test_other_events_are_none_and_lost_ones_are_told() -> None:
    assert read_event(b'{"type": "ref-updated"}') is None
    assert EventsDropped() == read_event(b'{"type": "dropped-output"}')


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"type": 1}',
        b'{"type": "comment-added"}',
        line(patchSet=[]),
        line(patchSet={"number": 1, "revision": "HEAD", "ref": "refs/changes/01/1/1"}),
        line(patchSet={"number": 1, "revision": "a" * 40, "ref": "--help"}),
        line(patchSet={"number": 1, "revision": "a" * 40, "ref": "refs/changes/01/1/1", "parents": 3}),
        line(change={"project": "", "branch": "b", "number": 1, "id": "I"}),
        line(approvals=[{"type": "x", "value": "many"}]),
        line(eventCreatedOn=10**15),
        line(eventCreatedOn=1e9),
        line(comment=["x"]),
        line(author="me"),
    ],
)
def test_line_that_gerrit_would_not_write_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - which one is of no interest: it is counted
        read_event(wrong)


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


@given(st.sampled_from(sorted(event())), JSON)
def test_any_value_in_an_event_is_read_or_refused(name: str, value: object) -> None:
    with suppress(ValueError):
        read_event(line(**{name: value}))


@given(st.binary())
def test_any_line_is_read_or_refused(raw: bytes) -> None:
    with suppress(ValueError):
        assert read_event(raw) is None


@given(st.sampled_from(sorted(change(1))), JSON)
def test_any_value_in_a_change_is_read_or_refused(name: str, value: object) -> None:
    with suppress(ValueError):
        read_change(change(1, **{name: value}))


def test_second_is_whole() -> None:
    assert 0 == client.whole_second(SINCE).microsecond
