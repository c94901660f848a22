"""The role of each user."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.auth.roles import Person, Role, Roles, User, is_name

ROLES = Roles(admins=frozenset({"ada", "group:ops"}), editors=frozenset({"eva", "group:perf"}))


@pytest.mark.parametrize(
    ("person", "role"),
    [
        (Person("ada"), Role.ADMIN),
        (Person("eva"), Role.EDITOR),
        (Person("eva", ("ops",)), Role.ADMIN),
        (Person("otto", ("perf", "all")), Role.EDITOR),
        (Person("otto", ("all",)), Role.VIEWER),
        (Person("Ada"), Role.VIEWER),
    ],
)
def test_greatest_role_counts(person: Person, role: Role) -> None:
    assert User(person.name, role) == ROLES.user(person)


def test_name_of_a_group_is_no_way_to_its_role() -> None:
    """People may choose their names; so a person called as a group is not in it, nor is the reverse."""
    assert Role.VIEWER == ROLES.user(Person("ops")).role
    assert Role.VIEWER == ROLES.user(Person("otto", ("ada",))).role
    assert not is_name("group:ops")


@pytest.mark.parametrize("name", ["alice", "alice@example.org", "Zoë", "O'Neil, J.", "李", "x" * 200])
def test_names_of_people_are_names(name: str) -> None:
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", " a", "a ", "a\nb", "a\r\nSet-Cookie: x", "\0", "x" * 201, "token nightly", "nobody", "\ud800"],
)
def test_what_deceives_is_no_name(name: str) -> None:
    assert not is_name(name)


@given(st.text())
def test_names_fit_into_a_line(name: str) -> None:
    assert not is_name(name) or name.splitlines() == [name]
