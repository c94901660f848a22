"""The specification of an analysis: what it chooses, and how it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.model import TraceKey
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
        ("[a]", "it is no table; begin with tests:"),
        ("", "it is no table; begin with tests:"),
        ("tests: []", "tests is []; it "),
        ("tests: [{minimum_change: much}]", "tests.1.minimum_change is 'much'; it should be a valid number"),
        ("tests: [{minimum_change: 2}]", "tests.1.minimum_change is 2; it should be less than or equal to 1"),
        ("tests: [{minimum_change: .nan}]", "tests.1.minimum_change is nan; it should be"),
        ("tests: [{mail: nobody}]", "tests.1.mail.1 is 'nobody'; it should be an address such as"),
        ("tests: [{mail: 'a@b, c@d'}]", "tests.1.mail.1 is 'a@b, c@d'; it should be an address"),
        ("tests: [{names: []}]", "tests.1.names is []; it "),
        ("tests: [{keys: [{frame: 64}]}]", "tests.1.keys.1.frame is 64; it should be a valid string"),
        ("tests: [", "is no YAML: "),
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


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner) | st.dictionaries(st.sampled_from(["tests", "names", "keys", "mail"]), inner)
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
