"""The specification of an analysis: what it chooses, and how it refuses."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError, UsageError
from perftrend.model import Better, Result, Run, Series, Status, TraceKey
from perftrend.watchlist import Watchlist, load


def key(test: str, metric: str = "mrr", **others: str) -> TraceKey:
    return TraceKey.of(test=test, metric=metric, **others)


IP4, L2 = key("64b-1c-ip4-mrr", frame="64B"), key("64b-1c-l2-mrr", frame="64B")
NDR, PDR = key("64b-1c-ip4-ndrpdr", "ndr"), key("64b-1c-ip4-ndrpdr", "pdr")
ALL = (IP4, L2, NDR, PDR)
TAGGED = {("MRR",): {IP4, L2}, ("MRRANDip4", "pdr"): {IP4, PDR}}


def watchlist(*entries: object) -> Watchlist:
    return Watchlist.model_validate({"tests": list(entries)})


def chosen(*entries: object) -> set[TraceKey]:
    return set(watchlist(*entries).choose(ALL, lambda tags: TAGGED[tags]).watched)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, set(ALL)),
        ({"names": "64B-*-IP4-*"}, {IP4, NDR, PDR}),
        ({"names": ["*-l2-*", "*-ndrpdr"]}, {L2, NDR, PDR}),
        ({"names": "64b-1c-ip4"}, set()),
        ({"metrics": "ndr"}, {NDR}),
        ({"metrics": ["ndr", "pdr"]}, {NDR, PDR}),
        ({"keys": [{"frame": "64B"}]}, {IP4, L2}),
        ({"keys": [{"test": "64b-1c-ip4-ndrpdr", "metric": "pdr"}, {"test": "64b-1c-l2-mrr"}]}, {PDR, L2}),
        ({"keys": [{"frame": "64B", "metric": "ndr"}]}, set()),
        ({"tags": "MRR"}, {IP4, L2}),
        ({"tags": ["MRRANDip4", "pdr"], "metrics": "pdr"}, {PDR}),
        ({"tags": "MRR", "names": "*-l2-*"}, {L2}),
    ],
)
def test_all_that_an_entry_says_must_fit(entry: object, expected: set[TraceKey]) -> None:
    assert expected == chosen(entry)


def test_first_entry_that_fits_decides() -> None:
    strict = {"names": "*-ip4-*", "minimum_change": 0.001, "owners": "ip", "mail": "ip@example.org"}
    found = watchlist(strict, {"minimum_change": 0.05}).choose(ALL, lambda _: ())

    assert [0.001, 0.05] == [found.watched[each].minimum_change for each in (IP4, L2)]
    assert (("ip",), ("ip@example.org",)) == (found.watched[NDR].owners, found.watched[NDR].mail)


def test_entry_that_fits_nothing_is_named() -> None:
    found = watchlist({"names": "nothing"}, {"names": "*"}, {"metrics": "soak"}).choose(ALL, lambda _: ())

    assert (1, 3) == found.unused


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [{nams: a}]", "no key is named 'tests.1.nams'; did you mean 'names'?"),
        (
            "tests: [{}, {minimum_chang: 1}]",
            "no key is named 'tests.2.minimum_chang'; did you mean 'minimum_",
        ),
        ("test: [{}]\ntests: [{}]", "no key is named 'test'; did you mean 'tests'?"),
        ("{}", "tests is missing; list the tests under it"),
        ("[a]", "it is not a mapping; begin with tests:"),
        ("", "it is not a mapping; begin with tests:"),
        ("tests: []", "tests is []; it should not be empty"),
        ("tests: [{minimum_change: much}]", "tests.1.minimum_change is 'much'; it should be a valid number"),
        ("tests: [{minimum_change: 2}]", "tests.1.minimum_change is 2; it should be less than or equal to 1"),
        ("tests: [{minimum_change: .nan}]", "tests.1.minimum_change is nan; it should be"),
        ("tests: [{mail: nobody}]", "tests.1.mail.1 is 'nobody'; it should be an address such as"),
        ("tests: [{mail: 'a@b, c@d'}]", "tests.1.mail.1 is 'a@b, c@d'; it should be an address"),
        ("tests: [{names: []}]", "tests.1.names is []; it should not be empty"),
        ("tests: [{names: ['']}]", "tests.1.names.1 is ''; it should not be empty"),
        ("tests: [{keys: [{frame: 64}]}]", "tests.1.keys.1.frame is 64; it should be a valid string"),
        ("tests: [", "is not valid YAML: "),
        (
            "tests: [{}]\naliases: [{wass: a, now: b}]",
            "no key is named 'aliases.1.wass'; did you mean 'was'?",
        ),
        ("tests: [{}]\naliases: [{was: a}]", "aliases.1.now is missing; give it"),
        ("tests: [{}]\naliases: [{now: b}]", "should have one of was and pattern"),
        ("tests: [{}]\naliases: [{was: a, pattern: a, now: b}]", "should have one of was and pattern"),
        ("tests: [{}]\naliases: [{pattern: '(', now: b}]", "missing ), unterminated subpattern"),
        ("tests: [{}]\naliases: [{pattern: '(a)', now: '\\2'}]", "invalid group reference 2"),
        ("tests: [{}]\naliases: [{pattern: a, now: '\\g<b>'}]", "unknown group name 'b'"),
        ("tests: [{}]\naliases: [{parameter: testbed, was: a, now: b}]", "a testbed cannot be renamed here"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "watched.yaml"
    file.write_text(text)

    with pytest.raises(SettingsError) as refused:
        load(file)

    assert str(refused.value).startswith(f"specification {file}")
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file or directory; give one that can be read"):
        load(tmp_path / "none.yaml")


def aliased(*aliases: dict[str, str]) -> Watchlist:
    return Watchlist.model_validate({"tests": [{}], "aliases": aliases})


@pytest.mark.parametrize(
    ("aliases", "before", "after"),
    [
        ([{"was": "a", "now": "b"}], key("a"), key("b")),
        ([{"was": "a", "now": "b"}], key("aa"), key("aa")),
        ([{"was": "a", "now": "b"}, {"was": "b", "now": "c"}], key("a"), key("c")),
        ([{"was": "b", "now": "c"}, {"was": "a", "now": "b"}], key("a"), key("b")),
        ([{"pattern": r"(\d+b)-(?P<rest>.+)", "now": r"\g<rest>-\1"}], key("64b-x"), key("x-64b")),
        ([{"pattern": "b", "now": "c"}], key("abc"), key("abc")),
        ([{"parameter": "suite", "was": "Old", "now": "New"}], key("a", suite="Old"), key("a", suite="New")),
        ([{"parameter": "nic", "pattern": ".*", "now": ""}], key("a", nic="x710"), key("a")),
        ([{"parameter": "nic", "was": "x", "now": "y"}], key("a"), key("a")),
        ([{"parameter": "nic", "pattern": "()", "now": "x710"}], key("a"), key("a", nic="x710")),
    ],
)
def test_renamed_test_has_its_newest_name(
    aliases: list[dict[str, str]], before: TraceKey, after: TraceKey
) -> None:
    assert after == aliased(*aliases).rename(before)


def series(one: TraceKey, samples: dict[int, float], unit: str = "pps") -> Series:
    moments = [datetime(2026, 1, build, tzinfo=UTC) for build in samples]
    runs = tuple(
        Run(testbed="x", job="j", build=build, started=moment, finished=moment)
        for build, moment in zip(samples, moments, strict=True)
    )
    results = tuple(
        Result(one, unit, Better.HIGHER, Status.PASS, samples=(sample,), value=sample)
        for sample in samples.values()
    )
    return Series(one, unit, Better.HIGHER, runs, np.array(list(samples.values())), results)


def test_history_of_a_renamed_test_goes_on() -> None:
    """In the night of both names the new one counts, whatever the order of the series."""
    old, new, other = (
        series(key("old"), {1: 1.0, 2: 2.0, 3: 3.0}),
        series(key("z"), {3: 30.0, 4: 40.0}),
        key("a"),
    )

    joined = aliased({"was": "old", "now": "z"}).join([old, new, series(other, {1: 9.0})])

    assert [other, key("z")] == [one.key for one in joined]
    assert [1.0, 2.0, 30.0, 40.0] == joined[1].samples.tolist()
    assert [1, 2, 3, 4] == [run.build for run in joined[1].runs]
    assert {key("z")} == {result.key for result in joined[1].results}
    assert [1.0, 2.0, 30.0, 40.0] == [result.value for result in joined[1].results]


def test_series_of_another_unit_stays_apart() -> None:
    old, new = series(key("old"), {1: 1.0}, unit="cps"), series(key("new"), {2: 2.0})

    joined = aliased({"was": "old", "now": "new"}).join([old, new])

    assert [(key("new"), "pps"), (key("old"), "cps")] == [(one.key, one.unit) for one in joined]


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(
            st.sampled_from(["tests", "names", "keys", "mail", "aliases", "pattern", "now", "was"]), inner
        )
    ),
)


@given(content=ANYTHING)
def test_whatever_a_file_says_is_taken_or_refused_in_one_line(
    content: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.getbasetemp() / "anything.yaml"
    file.write_text(yaml.safe_dump(content), encoding="utf-8")
    refusal = ""

    try:
        taken = bool(load(file).tests)
    except SettingsError as error:
        taken, refusal = False, str(error)

    assert taken != bool(refusal)
    assert "\n" not in refusal


# ---- test lists


def lists(**named: object) -> Watchlist:
    return Watchlist.model_validate({"tests": [{}], "lists": named})


def test_list_gives_its_tag_expressions() -> None:
    found = lists(nightly=["mrrAND64b", "pdr"], acl="*acl*")

    assert (("mrrAND64b", "pdr"), ("*acl*",)) == (found.find_list("nightly"), found.find_list("acl"))


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("nigthly", "no test list is named '#nigthly'; did you mean '#nightly'?"),
        ("zzz", "no test list is named '#zzz'; known are #acl, #nightly"),
        ("Nightly", "no test list is named '#Nightly'; did you mean '#nightly'?"),
    ],
)
def test_unknown_list_names_the_nearest(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as refused:
        lists(nightly="mrr", acl="*acl*").find_list(name)

    assert hint == str(refused.value)


@pytest.mark.parametrize(
    ("content", "hint"),
    [
        ("lists: {nightly: []}", "lists.nightly is []; it should not be empty"),
        ("lists: {'a b': mrr}", "a b"),
        ("lists: {'../x': mrr}", "../x"),
        ("lists: mrr", "lists is 'mrr'; it "),
    ],
)
def test_list_that_cannot_be_used_is_refused_in_one_line(content: str, hint: str, tmp_path: Path) -> None:
    file = tmp_path / "watched.yaml"
    file.write_text(f"tests: [{{}}]\n{content}\n")

    with pytest.raises(SettingsError) as refused:
        load(file)

    assert hint in str(refused.value)
    assert "\n" not in str(refused.value)


def test_any_name_of_a_tag_is_a_parameter() -> None:
    assert (("cls", "a"), ("self", "b")) == TraceKey.of(self="b", cls="a").parameters
