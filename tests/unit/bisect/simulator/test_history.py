from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.bisect.simulator import HistoryModel, SimulatedHistory, SimulatedNoise
from perftrend.errors import SettingsError

MODELS = st.builds(
    HistoryModel,
    size=st.integers(3, 60),
    changes=st.sampled_from([(), (3.0,), (5.0, -4.0)]),
    broken=st.sampled_from([0.0, 0.1, 0.5]),
    branches=st.sampled_from([0.0, 0.3, 0.9]),
)


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_new_contains_all_commits_and_all_changes(model: HistoryModel, seed: int) -> None:
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history

    assert model.size == len(history.commits) == history.ancestors[-1].bit_count()
    assert sum(model.changes) == pytest.approx(simulated.change(history.new))
    assert simulated.change(history.old) == 0
    assert sorted(model.changes) == sorted(simulated.culprits.values())


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_ends_build_and_others_as_rarely_as_asked(model: HistoryModel, seed: int) -> None:
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history

    assert not {history.old, history.new} & simulated.broken
    assert bool(model.broken) >= bool(simulated.broken)
    assert len(simulated.broken) >= model.broken * (model.size - 1)


@given(model=MODELS, seed=st.integers(0, 10_000))
def test_commits_of_a_smallest_set_are_in_the_same_buildable_ones(model: HistoryModel, seed: int) -> None:
    """By definition, commit by commit."""
    simulated = SimulatedHistory(model, (seed,))
    history = simulated.range.history
    contents = {
        commit: set(history.hashes(history.reachable_from(commit)))
        for commit in history.commits
        if commit not in simulated.broken
    }
    within = {
        commit: frozenset(each for each, content in contents.items() if commit in content)
        for commit in history.commits
    }

    for commit in history.commits[:: max(1, model.size // 5)]:
        expected = [each for each in history.commits if within[each] == within[commit]]
        assert expected == list(simulated.smallest_set(commit))


def test_history_without_branches_is_a_line() -> None:
    simulated = SimulatedHistory(HistoryModel(size=20), (1,))

    assert all(each.parents == (before.hash,) for before, each in pairwise(simulated.range.commits))


def test_history_with_branches_has_merges() -> None:
    simulated = SimulatedHistory(HistoryModel(size=100, branches=0.3), (1,))

    assert sum(len(each.parents) == 2 for each in simulated.range.commits) >= 5


def test_commits_do_not_build_in_stretches() -> None:
    """Of those that do not build most have a neighbour that does not, too."""
    simulated = SimulatedHistory(HistoryModel(size=1000, changes=(), broken=0.1), (1,))
    names = simulated.range.history.commits
    broken = [name in simulated.broken for name in names]
    followed = sum(one and other for one, other in pairwise(broken))

    assert 100 <= sum(broken) <= 130
    assert followed > 0.6 * sum(broken)


def test_streams_of_random_numbers_do_not_meet() -> None:
    """A key that is continued by zeros would be the same stream."""
    simulated = SimulatedHistory(HistoryModel(), (1,))
    keys = [("layout", 1), ("layout", 1, 0), ("measurement", 1, 0), ("measurement", 1, 0, 1), ("drift", 0)]
    drawn = {key: simulated.random(key[0], *key[1:]).random() for key in keys}  # type: ignore[arg-type]

    assert drawn["layout", 1] == drawn["layout", 1, 0]
    assert len(keys) - 1 == len(set(drawn.values()))


def test_layout_of_a_commit_stays_and_is_its_own() -> None:
    simulated = SimulatedHistory(HistoryModel(noise=SimulatedNoise(layout=0.5)), (1,))
    old, *_, new = simulated.range.old, *simulated.range.history.commits

    assert simulated.layout(old, 0) == simulated.layout(old, 0)
    layouts = {simulated.layout(old, 0), simulated.layout(new, 0), simulated.layout(old, 1)}
    assert len({*layouts, simulated.layout(old, 0, variant=1)}) == 4


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"size": 1, "changes": (1.0, 2.0)}, "size"),
        ({"size": 0, "changes": ()}, "size"),
        ({"tests": ()}, "tests"),
        ({"broken": 1.0}, "broken"),
        ({"branches": -0.1}, "branches"),
    ],
)
def test_history_that_cannot_be_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingsError, match=named):
        HistoryModel(**wrong)
