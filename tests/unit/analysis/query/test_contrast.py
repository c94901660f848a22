"""What some traces have in common and others do not."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import TraceTable, find_contrast
from perftrend.analysis.query.table import Contrast, Feature
from perftrend.model import TraceKey

ACL, FRAMES, CORES, METRICS = ("base", "iacl50"), ("64b", "imix"), ("1c", "2c"), ("mrr", "ndrpdr")
KEYS = [
    TraceKey.of(testbed="2n-clx", test="-".join(words), frame=words[0], cores=words[1])
    for words in product(FRAMES, CORES, ACL, METRICS)
]
TABLE = TraceTable(KEYS)


def contrast(words: Iterable[str], *, without: int = 0) -> Contrast | None:
    """Return the contrast of the tests with all of some words; the first ones are left out."""
    wanted = set(words)
    places = [place for place, key in enumerate(KEYS) if wanted <= set(key.as_dict()["test"].split("-"))]
    chosen = np.array(places[without:], dtype=np.intp)
    return find_contrast(TABLE, chosen, np.setdiff1d(np.arange(len(KEYS)), chosen))


def test_word_of_the_names_distinguishes_the_traces() -> None:
    assert Contrast((Feature("test", "iacl50", is_word=True),), 0, 8) == contrast(["iacl50"])


def test_parameter_comes_before_the_same_word() -> None:
    assert Contrast((Feature("cores", "2c"),), 0, 8) == contrast(["2c"])


def test_several_features_distinguish_together() -> None:
    found = contrast(["iacl50", "64b"])

    assert found is not None
    assert {"frame=64B".lower(), "iacl50 in test"} == {str(each).lower() for each in found.features}
    assert 0 == found.others


def test_traces_that_did_not_change_are_counted() -> None:
    found = contrast(["iacl50"], without=1)

    assert found is not None
    assert ("iacl50 in test", 1, 9) == (str(found.features[0]), found.others, found.of_others)


@pytest.mark.parametrize("chosen", [[], [3], list(range(len(KEYS)))])
def test_nothing_is_said_of_one_trace_or_all(chosen: list[int]) -> None:
    others = np.setdiff1d(np.arange(len(KEYS)), chosen)

    assert find_contrast(TABLE, np.array(chosen, dtype=np.intp), others) is None


def test_nothing_is_said_if_nothing_is_in_common() -> None:
    chosen = np.array([0, len(KEYS) - 1])

    assert find_contrast(TABLE, chosen, np.arange(1, len(KEYS) - 1)) is None


def test_traces_that_lack_a_parameter_do_not_have_it_in_common() -> None:
    keys = [TraceKey.of(test="a-x", driver="avf"), TraceKey.of(test="b-x"), TraceKey.of(test="c-y")]

    found = find_contrast(TraceTable(keys), np.array([0, 1]), np.array([2]))

    assert Contrast((Feature("test", "x", is_word=True),), 0, 1) == found


@given(chosen=st.sets(st.sampled_from(range(len(KEYS))), min_size=2, max_size=len(KEYS) - 1))
def test_counts_are_those_of_the_features(chosen: set[int]) -> None:
    places = np.array(sorted(chosen))
    others = np.setdiff1d(np.arange(len(KEYS)), places)
    found = find_contrast(TABLE, places, others)

    def has(key: TraceKey, feature: Feature) -> bool:
        value = key.as_dict()[feature.parameter]
        return feature.value in value.split("-") if feature.is_word else feature.value == value

    if found:
        fits = [all(has(key, each) for each in found.features) for key in KEYS]
        assert all(fits[place] for place in chosen)
        assert found.others == sum(fits[place] for place in others.tolist())
