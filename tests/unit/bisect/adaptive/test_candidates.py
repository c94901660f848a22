import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend.bisect.adaptive.candidates import Suspects
from tests.unit.bisect.test_history import DIAMOND, shaped
from tests.unit.bisect.world import line, names


def told(suspects: Suspects) -> list[tuple[str, ...]]:
    return [suspects.history.hashes(each) for each in suspects.classes]


def splits(suspects: Suspects) -> list[tuple[str, ...]]:
    return [
        tuple(suspects.history.commits[at] for at in suspects.split_points(each)) for each in suspects.classes
    ]


def test_classes_of_a_line_are_the_gaps_between_measured_commits() -> None:
    suspects = Suspects.of(line(6).history, ["c0", "c6", "c2", "c2"], ())

    assert [names([1, 2]), names([3, 4, 5, 6])] == told(suspects)
    assert [[0, 1, 1], [0, 1, 0]] == suspects.after.tolist()
    assert [1 / 3, 2 / 3] == pytest.approx(suspects.shares.tolist())
    assert [0.5, 0.0] == suspects.inside("c1").tolist()


def test_class_whose_inner_commits_do_not_build_is_atomic() -> None:
    suspects = Suspects.of(line(6).history, ["c0", "c6", "c2"], ["c3", "c4", "c5"])

    assert [names([1]), ()] == splits(suspects)


def test_merge_is_looked_at_as_a_whole_before_its_branch() -> None:
    history = shaped(**DIAMOND)

    whole = Suspects.of(history, ["old", "a3"], ())
    guilty_merge = Suspects.of(history, ["old", "a3", "m", "a2"], ())
    clean_branch = Suspects.of(history, ["old", "a3", "m", "a2", "b2"], ())

    assert [("a1", "a2", "m")] == splits(whole)
    assert ("b1", "b2", "m") in told(guilty_merge)
    assert ("b1", "b2") in splits(guilty_merge)
    assert ("m",) in told(clean_branch)


def test_commits_near_the_quarters_are_candidates() -> None:
    suspects = Suspects.of(line(100).history, ["c0", "c100"], ["c50"])

    assert names([25, 49, 75]) == suspects.candidates(suspects.classes[0])


@given(some.data())
def test_classes_are_told_apart_by_measured_commits_and_nothing_else(data: some.DataObject) -> None:
    size = data.draw(some.integers(1, 12))
    parents = {}
    for index in range(size):
        earlier = ["old", *parents]
        known = data.draw(some.lists(some.sampled_from(earlier), min_size=1, max_size=3, unique=True))
        parents[f"k{index}"] = " ".join(known)
    history = shaped(**parents)
    measured = data.draw(some.lists(some.sampled_from(["old", *parents])))
    suspects = Suspects.of(history, measured, ())

    def pattern(commit: str) -> tuple[bool, ...]:
        return tuple(bool(history.reachable_from(each) >> history.index(commit) & 1) for each in measured)

    classes = [frozenset(each) for each in told(suspects)]
    expected = {frozenset(other for other in parents if pattern(other) == pattern(one)) for one in parents}
    assert expected == set(classes)
    # A class that nothing splits is one commit, where everything builds.
    for commits, splitting in zip(classes, splits(suspects), strict=True):
        assert (len(commits) == 1) == (not splitting)
    assert np.array_equal(suspects.after[:, :1] > 0, suspects.after[:, :1] == 1)
