import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend import errors
from perftrend.bisect import CommitHistory, CommitRange
from perftrend.bisect.history import members
from perftrend.bisect.state import RangeCommit
from tests.unit.bisect.world import line, names


def shaped(**parents: str) -> CommitHistory:
    """Return a history after ``old``; each commit with its parents, oldest first."""
    commits = tuple(RangeCommit(name, tuple(known.split())) for name, known in parents.items())
    return CommitRange("old", commits).history


DIAMOND = {"a1": "old", "b1": "old", "b2": "b1", "a2": "a1", "m": "a2 b2", "a3": "m"}


def test_a_commit_contains_its_ancestors_and_itself() -> None:
    history = shaped(**DIAMOND)

    assert ("a1", "b1", "b2", "a2", "m") == history.hashes(history.reachable_from("m"))
    assert ("b1", "b2") == history.hashes(history.reachable_from("b2"))
    assert history.reachable_from("old") == 0


def test_mainline_alone_is_looked_at_where_asked() -> None:
    commits = tuple(RangeCommit(name, tuple(known.split())) for name, known in DIAMOND.items())

    assert ("a1", "a2", "m", "a3") == CommitRange("old", commits, first_parent=True).history.commits


@given(some.integers(1, 300), some.data())
def test_halving_leaves_one_commit_after_few_steps(size: int, data: some.DataObject) -> None:
    history, good, bad = line(size).history, ["c0"], f"c{size}"
    culprit = data.draw(some.integers(1, size))

    for _ in range(size.bit_length() + 1):
        halving = history.next_commit(good=good, bad=bad)
        if halving.commit is None:
            break
        if int(halving.commit[1:]) < culprit:
            good.append(halving.commit)
        else:
            bad = halving.commit

    assert names([culprit]) == halving.suspects


def test_only_skipped_commits_are_suspected_with_the_bad_one() -> None:
    halving = line(9).history.next_commit(good=["c4"], bad="c8", skipped=["c5", "c6", "c7", "c2"])

    assert halving.commit is None
    assert names([5, 6, 7, 8]) == halving.suspects


@pytest.mark.parametrize(
    ("commits", "reason"),
    [
        ([], "no commit"),
        ([("a", "old"), ("a", "old")], "twice"),
        ([("a", "b"), ("b", "old")], "before its parent"),
        ([("old", "x"), ("a", "old")], "no commit"),
    ],
)
def test_what_is_no_range_is_refused(commits: list[tuple[str, str]], reason: str) -> None:
    with pytest.raises(errors.UsageError, match=reason):
        CommitHistory("old", [RangeCommit(name, (parent,)) for name, parent in commits])


def test_commit_outside_the_range_is_refused() -> None:
    with pytest.raises(errors.UsageError, match="x is not between"):
        shaped(a="old").index("x")


@given(some.sets(some.integers(0, 80)))
def test_set_is_taken_apart_in_order(chosen: set[int]) -> None:
    assert sorted(chosen) == list(members(sum(1 << each for each in chosen)))
