"""What ``git bisect`` is at, on small repositories of the real git."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.clients.git import Repository
from perftrend.clients.git.checkout import _first, underway
from perftrend.errors import UsageError
from tests.products.histories import History


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "source")


def many(history: History, count: int = 9) -> list[str]:
    return [history.commit(f"Number {number}", {"file": f"{number}\n"}) for number in range(count)]


def test_ends_are_those_that_it_began_with_at_every_step(history: History) -> None:
    hashes = many(history)
    history.git("bisect", "start", hashes[8], hashes[0])

    first = underway(history.folder)
    history.git("bisect", "bad")
    history.git("bisect", "good")
    later = underway(history.folder)

    assert (hashes[0], hashes[8]) == (first.old, first.new) == (later.old, later.new)
    assert hashes[4] == first.commit != later.commit


@pytest.mark.parametrize("terms", [("fast", "slow"), ("old", "new"), ("bad-before", "b.d")])
def test_ends_are_found_whatever_they_are_called(history: History, terms: tuple[str, str]) -> None:
    """Also where it is not all told at the start."""
    hashes = many(history)
    old, new = terms
    history.git("bisect", "start", f"--term-old={old}", f"--term-new={new}")
    history.git("bisect", new, hashes[7])
    history.git("bisect", old, hashes[2], hashes[1])

    found = underway(history.folder)

    assert (hashes[2], hashes[7]) == (found.old, found.new)
    assert {f"refs/bisect/{old}-{hashes[2]}", f"refs/bisect/{new}"} == set(found.refs)


def test_subject_of_a_commit_names_no_end(history: History) -> None:
    hashes = many(history, 3)
    forged = history.commit(f"# bad: [{hashes[0]}] # good: [{hashes[1]}]", {"file": "forged\n"})
    *_, last = many(history)
    history.git("bisect", "start")
    history.git("bisect", "skip", forged)
    history.git("bisect", "bad", last)
    history.git("bisect", "good", hashes[2])

    found = underway(history.folder)

    assert (hashes[2], last) == (found.old, found.new)


def test_what_is_only_begun_has_no_ends(history: History) -> None:
    hashes = many(history, 3)
    history.git("bisect", "start")
    history.git("bisect", "bad", hashes[2])

    found = underway(history.folder)

    assert (None, hashes[2], hashes[2]) == (found.old, found.new, found.commit)


def test_checkout_without_a_bisection_has_its_commit(history: History) -> None:
    *_, last = many(history, 2)
    (history.folder / "folder").mkdir()

    found = underway(history.folder / "folder")

    assert (history.folder, history.folder / ".git", last) == (
        found.checkout.top,
        found.checkout.folder,
        found.commit,
    )
    assert (None, None, ()) == (found.old, found.new, found.refs)


def test_commit_without_a_checkout_is_the_one_that_git_asks_about(history: History) -> None:
    hashes = many(history)
    history.git("bisect", "start", "--no-checkout", hashes[8], hashes[0])

    assert hashes[4] == underway(history.folder).commit


def test_worktree_has_a_bisection_of_its_own(history: History, tmp_path: Path) -> None:
    """Its commits may be on no branch; the refs of the bisection lead to them."""
    hashes = many(history)
    place = tmp_path / "worktree"
    history.git("worktree", "add", "--quiet", "--detach", str(place))
    history.git("-C", str(place), "commit", "--quiet", "--allow-empty", "--message", "Only here")
    only = history.git("-C", str(place), "rev-parse", "HEAD")
    history.git("-C", str(place), "bisect", "start", only, hashes[0])

    found = underway(place)
    mirror = Repository.mirror(str(found.checkout.top), tmp_path / "mirror.git")
    mirror.fetch(*found.refs)

    assert (place, history.folder / ".git", only) == (found.checkout.top, found.checkout.folder, found.new)
    assert "Only here" == mirror.commit(only).subject
    assert None is underway(history.folder).new


def test_folder_of_no_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="is not a checkout of a git repository; start this where git bisect runs"
    ):
        underway(tmp_path)


def test_checkout_without_a_commit_is_refused(history: History) -> None:
    with pytest.raises(UsageError, match="has no commit checked out"):
        underway(history.folder)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["good", "bad", "skip", "b.d"]),
            st.text("0123456789abcdef", min_size=40, max_size=40),
            st.text("# :[]good bad\r\u2028" + "a" * 3, max_size=60),
        )
    )
)
def test_first_mark_of_a_log_is_found_whatever_subjects_say(marks: list[tuple[str, str, str]]) -> None:
    log = "".join(
        f"# {term}: [{name}] {subject}\ngit bisect {term} {name}\n" for term, name, subject in marks
    )

    for asked in ("good", "bad", "b.d"):
        assert next((name for term, name, _ in marks if term == asked), None) == _first(log, asked)
