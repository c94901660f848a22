"""The role of each user."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.dashboard.auth.users import Person, Role, Roles, User, is_name
from perftrend.store.access import ALL_TESTBEDS, Grant

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


def grant(person: str, testbed: str, role: str) -> Grant:
    return Grant(1, person, testbed, role, datetime.now(UTC), "ada", 1)


@pytest.mark.parametrize(
    ("person", "grants", "role", "testbeds"),
    [
        (Person("otto"), [("otto", "a", "editor")], Role.VIEWER, {"a": Role.EDITOR}),
        (Person("otto"), [("otto", "", "editor")], Role.EDITOR, {}),
        (Person("otto"), [("otto", "", "editor"), ("otto", "a", "editor")], Role.EDITOR, {}),
        (Person("otto"), [("otto", "", "editor"), ("otto", "a", "admin")], Role.EDITOR, {"a": Role.ADMIN}),
        (
            Person("otto", ("x",)),
            [("group:x", "a", "admin"), ("otto", "a", "editor"), ("otto", "b", "editor")],
            Role.VIEWER,
            {"a": Role.ADMIN, "b": Role.EDITOR},
        ),
        (Person("eva"), [("eva", "a", "admin"), ("eva", "b", "editor")], Role.EDITOR, {"a": Role.ADMIN}),
        (Person("ada"), [("ada", "a", "editor"), ("ada", "", "editor")], Role.ADMIN, {}),
    ],
)
def test_grants_add_to_the_roles_of_the_settings(
    person: Person, grants: list[tuple[str, str, str]], role: Role, testbeds: dict[str, Role]
) -> None:
    user = ROLES.user(person, [grant(*each) for each in grants])

    assert (role, testbeds) == (user.role, dict(user.testbeds))


def test_role_on_a_testbed_is_the_own_one_or_that_on_all() -> None:
    user = User("otto", Role.EDITOR, testbeds=(("a", Role.ADMIN),))

    assert [Role.ADMIN, Role.EDITOR, Role.EDITOR] == [user.role_on(each) for each in ("a", "b", "")]
    assert Role.ADMIN == user.highest
    assert [False, True] == [
        User("otto", Role.VIEWER, testbeds=(("a", Role.EDITOR),)).may_edit(each) for each in ("", "a")
    ]


@pytest.mark.parametrize(
    ("testbed", "role"),
    [
        ("vpp-2n-clx", Role.ADMIN),
        ("vpp-2n-icx", Role.EDITOR),
        ("vpp-3n-icx", Role.EDITOR),
        ("vpp-", Role.EDITOR),
        ("vpp", Role.VIEWER),
        ("VPP-2n-clx", Role.VIEWER),
        ("dpdk-vpp-2n-clx", Role.VIEWER),
        ("", Role.VIEWER),
        # Of patterns, those that are covered entirely.
        ("vpp-*", Role.EDITOR),
        ("vpp-2*", Role.EDITOR),
        ("vpp-2n-clx*", Role.EDITOR),
        ("vpp*", Role.VIEWER),
        ("v*", Role.VIEWER),
        ("*", Role.VIEWER),
    ],
)
def test_role_on_a_pattern_is_the_one_on_the_testbeds_that_begin_so(testbed: str, role: Role) -> None:
    user = User("otto", Role.VIEWER, testbeds=(("vpp-*", Role.EDITOR), ("vpp-2n-clx", Role.ADMIN)))

    assert role == user.role_on(testbed)


def test_highest_of_the_matching_roles_counts() -> None:
    scopes = (("vpp-*", Role.ADMIN), ("vpp-2*", Role.EDITOR), ("vpp-2n-clx", Role.EDITOR))

    assert Role.ADMIN == User("otto", Role.VIEWER, testbeds=scopes).role_on("vpp-2n-clx")


@pytest.mark.parametrize("scope", ["*", "**", "a**", "*a", "a*b", "*a*"])
def test_other_scopes_with_an_asterisk_are_names(scope: str) -> None:
    """They are no patterns, so a role on a testbed that has such a name applies to no other testbed."""
    user = User("otto", Role.VIEWER, testbeds=((scope, Role.ADMIN),))

    assert Role.ADMIN == user.role_on(scope)
    assert {Role.VIEWER} == {user.role_on(each) for each in ("a", "ab", "a*", "axb", "", "b", "aa")}


@pytest.mark.parametrize(
    ("one", "other", "role", "testbeds"),
    [
        (User("x", Role.ADMIN), User("y", Role.EDITOR), Role.EDITOR, {}),
        (
            User("x", Role.EDITOR),
            User("y", Role.VIEWER, testbeds=(("a", Role.ADMIN),)),
            Role.VIEWER,
            {"a": Role.EDITOR},
        ),
        (
            User("x", Role.VIEWER, testbeds=(("a", Role.ADMIN), ("b", Role.EDITOR))),
            User("y", Role.VIEWER, testbeds=(("b", Role.ADMIN),)),
            Role.VIEWER,
            {"b": Role.EDITOR},
        ),
        (
            User("x", Role.VIEWER, testbeds=(("a-*", Role.ADMIN), ("b-*", Role.ADMIN))),
            User("y", Role.VIEWER, testbeds=(("a-1", Role.EDITOR), ("b*", Role.EDITOR), ("c", Role.ADMIN))),
            Role.VIEWER,
            {"a-1": Role.EDITOR, "b-*": Role.EDITOR},
        ),
    ],
)
def test_limited_user_has_what_both_have(
    one: User, other: User, role: Role, testbeds: dict[str, Role]
) -> None:
    limited = one.limit_to(other)

    assert ("x", role, testbeds) == (limited.name, limited.role, dict(limited.testbeds))


NAMES_OF_TESTBEDS = st.text("ab*", min_size=1, max_size=4)
USERS = st.builds(
    lambda role, scopes: User("x", role, testbeds=tuple(sorted(scopes.items()))),
    st.sampled_from(Role),
    st.dictionaries(NAMES_OF_TESTBEDS, st.sampled_from(Role), max_size=6),
)


@given(USERS, USERS, NAMES_OF_TESTBEDS | st.just(ALL_TESTBEDS))
def test_limited_user_has_on_each_testbed_the_lower_role(one: User, other: User, testbed: str) -> None:
    assert min(one.role_on(testbed), other.role_on(testbed)) == one.limit_to(other).role_on(testbed)


@given(USERS, NAMES_OF_TESTBEDS, st.text("ab*-", max_size=3))
def test_role_on_a_pattern_is_also_the_one_on_each_testbed_that_it_matches(
    user: User, beginning: str, rest: str
) -> None:
    pattern = f"{beginning.replace('*', '-')}*"

    assert user.role_on(pattern) <= user.role_on(pattern[:-1] + rest)


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
    [
        "",
        " a",
        "a ",
        "a\nb",
        "a\r\nSet-Cookie: x",
        "\0",
        "x" * 201,
        "token nightly",
        "nobody",
        "command line",
        "\ud800",
    ],
)
def test_what_deceives_is_no_name(name: str) -> None:
    assert not is_name(name)


@given(st.text())
def test_names_fit_into_a_line(name: str) -> None:
    assert not is_name(name) or name.splitlines() == [name]
