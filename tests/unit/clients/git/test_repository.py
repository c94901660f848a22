"""Commits by their hash, history, and mirrors, on small repositories of the real git."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.clients.git import Repository
from perftrend.errors import ServiceError, UsageError
from tests.products.histories import History


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "source")


def three(history: History) -> list[str]:
    return [history.commit(f"Number {number}", {"file": f"{number}\n"}) for number in range(3)]


def test_commit_tells_what_a_person_would_call_it_by(history: History) -> None:
    first, second, _ = three(history)

    commit = Repository.at(history.folder).commit(second)

    assert (second, (first,), "Number 1", "Ada Example") == (
        commit.hash,
        commit.parents,
        commit.subject,
        commit.author,
    )
    assert datetime(2026, 1, 1, 1, tzinfo=UTC) == commit.committed


def test_subject_may_hold_everything_but_the_end_of_a_line(history: History) -> None:
    subject = 'ünicode \u2028 "quoted" %H \u202e 🎉'
    made = history.commit(subject, {"file": "1"})

    assert subject == Repository.at(history.folder).commit(made).subject


def test_newest_commits_are_read_without_waiting(history: History) -> None:
    made = [history.commit(f"Number {number}", {"file": f"{number}"}) for number in range(4)]
    repository = Repository.local(history.folder, timeout_s=60)

    assert made[:0:-1] == [commit.hash for commit in repository.newest(made[0], made[3], limit=9)]
    assert made[3:1:-1] == [commit.hash for commit in repository.newest(made[0], made[3], limit=2)]
    assert () == repository.newest(made[3], made[0], limit=9)
    with pytest.raises(ServiceError):
        repository.newest("1" * 40, made[3], limit=9)
    with pytest.raises(UsageError):
        repository.newest("main", made[3], limit=9)


def test_local_repository_does_not_take_longer_than_it_may(history: History) -> None:
    first, second, _ = three(history)

    with pytest.raises(ServiceError, match="took longer than 0 s"):
        Repository.local(history.folder, timeout_s=0.0).newest(first, second, limit=9)


def test_history_is_what_the_newer_has_and_the_older_has_not_oldest_first(history: History) -> None:
    first, second, third = three(history)
    repository = Repository.at(history.folder)

    assert [second, third] == [commit.hash for commit in repository.history(first, third)]
    assert () == repository.history(third, first)
    assert () == repository.history(third, third)


def test_first_parents_leave_out_the_branch_that_was_merged(history: History) -> None:
    base = history.commit("Base", {"file": "1"})
    history.git("checkout", "--quiet", "-b", "side")
    side = history.commit("Side", {"other": "1"})
    history.git("checkout", "--quiet", "main")
    main = history.commit("Main", {"file": "2"})
    merge = history.merge("side", "Merge side")
    repository = Repository.at(history.folder)

    whole = [commit.hash for commit in repository.history(base, merge)]
    short = [commit.hash for commit in repository.history(base, merge, first_parent=True)]

    assert {main, side} == set(whole[:-1])
    assert merge == whole[-1]
    assert [main, merge] == short
    assert (main, side) == repository.commit(merge).parents


def test_diff_is_what_the_commit_changed(history: History) -> None:
    _, second, _ = three(history)

    lines = Repository.at(history.folder).diff(second)

    assert ("-0", "+1") == tuple(
        line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---")
    )
    assert "diff --git a/file b/file" == lines[0]
    assert lines[:2] == Repository.at(history.folder).diff(second, most_lines=2)


def test_diff_of_a_merge_is_what_its_branch_brought(history: History) -> None:
    history.commit("Base", {"file": "1\n"})
    history.git("checkout", "--quiet", "-b", "side")
    history.commit("Side", {"other": "side\n"})
    history.git("checkout", "--quiet", "main")
    history.commit("Main", {"file": "2\n"})
    merge = history.merge("side", "Merge side")

    lines = Repository.at(history.folder).diff(merge)

    assert "+side" in lines
    assert "+2" not in lines


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (f"Subject\n\nWhy.\n\nChange-Id: I{'a' * 40}\nSigned-off-by: Ada <ada@example.org>", f"I{'a' * 40}"),
        (f"Subject\n\nChange-Id: I{'a' * 40}\nChange-Id: I{'b' * 40}", f"I{'b' * 40}"),
        (f"Subject\n\nChange-Id: I{'a' * 40} OR owner:self", ""),
        (f"Subject\n\nChange-Id: I{'a' * 40}\n\nThat line is in the text.", ""),
        ("Subject", ""),
    ],
)
def test_change_id_is_what_stands_at_the_end_of_the_message(
    history: History, message: str, expected: str
) -> None:
    made = history.commit(message, {"file": "1"})

    assert expected == Repository.at(history.folder).change_id(made)


def test_ancestor_is_told_from_what_is_beside(history: History) -> None:
    first, second, _ = three(history)
    history.git("checkout", "--quiet", "-b", "side", first)
    side = history.commit("Side", {"file": "side"})
    repository = Repository.at(history.folder)

    assert repository.is_ancestor(first, side)
    assert repository.is_ancestor(first, first)
    assert not repository.is_ancestor(second, side)
    assert not repository.is_ancestor(side, first)


def test_hash_is_found_by_7_digits_in_any_case(history: History) -> None:
    first, *_ = three(history)

    assert first == Repository.at(history.folder).resolve(first[:7].upper())
    assert first == Repository.at(history.folder).resolve(first)


@pytest.mark.parametrize(
    "text", ["main", "HEAD", "abcdef", "--help", "v1.0", "0" * 41, "1234567^", "", "١٢٣٤٥٦٧"]
)
def test_what_is_no_hash_is_refused(history: History, text: str) -> None:
    three(history)

    with pytest.raises(UsageError, match="write 7 to 40 hex digits"):
        Repository.at(history.folder).resolve(text)


@pytest.mark.parametrize("name", ["HEAD~1", "main~1", "v1.0", "annotated", "@~", ":/Number 1", "stable"])
def test_name_of_git_is_found_where_the_commits_come_from(
    history: History, tmp_path: Path, name: str
) -> None:
    _, second, _ = three(history)
    history.git("tag", "v1.0", second)
    history.git("tag", "--annotate", "--message", "words", "annotated", second)
    history.git("update-ref", "refs/remotes/origin/stable", second)
    history.git("symbolic-ref", "refs/remotes/stable/HEAD", "refs/remotes/origin/stable")

    repository = Repository.mirror(str(history.folder), tmp_path / "mirror.git")

    assert [second] * 2 == [repository.resolve_name(name), Repository.at(history.folder).resolve_name(name)]


def test_commit_that_no_branch_reaches_is_fetched(history: History, tmp_path: Path) -> None:
    """As that of ``git stash create``, which has the changes that are not committed."""
    three(history)
    (history.folder / "file").write_text("changed\n")
    stashed = history.git("stash", "create")
    repository = Repository.mirror(str(history.folder), tmp_path / "mirror.git")

    assert stashed == repository.resolve_name(stashed[:10])
    assert stashed == repository.commit(stashed).hash


@pytest.mark.parametrize(
    "name", ["--help", "-1", "", "v9.9", "HEAD~9", "main..HEAD", "^HEAD", "HEAD^{tree}", "a\nb", "a\0b", "é"]
)
def test_name_of_nothing_is_refused(history: History, name: str) -> None:
    three(history)

    with pytest.raises(UsageError, match=r"is not a commit of .*; write a hash, a tag, a branch, or"):
        Repository.at(history.folder).resolve_name(name)


def test_hash_outweighs_a_name(history: History) -> None:
    first, second, _ = three(history)
    history.git("tag", first[:7], second)
    history.git("tag", "20260102", second)
    repository = Repository.at(history.folder)

    assert [first, second] == [repository.resolve_name(each) for each in (first[:7], "20260102")]
    with pytest.raises(UsageError, match="1234567 does not exist"):
        repository.resolve_name("1234567")


def test_server_is_asked_for_no_name(history: History, tmp_path: Path) -> None:
    first, *_ = three(history)
    repository = Repository.mirror(f"file://{history.folder}", tmp_path / "mirror.git")

    assert first == repository.resolve_name(first[:8])
    with pytest.raises(UsageError, match="write 7 to 40 hex digits; names need a repository on this machine"):
        repository.resolve_name("main")


def test_common_ancestor_of_two_branches(history: History) -> None:
    first, second, _ = three(history)
    repository = Repository.at(history.folder)
    history.git("checkout", "--quiet", "-b", "side", first)

    assert first == repository.common_ancestor(second, history.commit("Side", {"side": "x"}))
    history.git("checkout", "--quiet", "--orphan", "other")
    assert repository.common_ancestor(history.commit("Other", {"other": "x"}), first) is None


def test_branch_that_looks_like_a_hash_is_not_taken_for_one(history: History) -> None:
    first, second, _ = three(history)
    history.git("branch", first[:7], second)

    assert first == Repository.at(history.folder).resolve(first[:7])


def test_hash_that_does_not_exist_is_told_as_such(history: History) -> None:
    three(history)

    with pytest.raises(UsageError, match="0123456 does not exist"):
        Repository.at(history.folder).resolve("0123456")
    with pytest.raises(UsageError, match="does not exist"):
        Repository.at(history.folder).resolve("01234567" * 5)


def test_hash_of_something_else_is_told_as_such(history: History) -> None:
    three(history)
    tree = history.git("rev-parse", "HEAD^{tree}")

    with pytest.raises(UsageError, match="is the hash of a tree, not of a commit"):
        Repository.at(history.folder).resolve(tree)


def alike(kind: str, begin: str) -> dict[str, str]:
    """Return the texts of two objects by their hashes, of which 7 digits are the same.

    Of 2 to the power of 28 beginnings some ten thousand texts have two in common (the birthday paradox).
    """
    seen: dict[str, tuple[str, str]] = {}
    for number in range(1_000_000):
        text = f"{begin}{number}\n"
        name = hashlib.sha1(f"{kind} {len(text)}\0{text}".encode(), usedforsecurity=False).hexdigest()
        if name[:7] in seen:
            return dict([seen[name[:7]], (name, text)])
        seen[name[:7]] = (name, text)
    raise AssertionError("a million hashes, and no two begin alike")


def test_ambiguous_hash_names_the_candidates(history: History) -> None:
    three(history)
    tree = history.git("rev-parse", "HEAD^{tree}")
    who = "Ada Example <ada@example.org> 1767225600 +0000"
    texts = alike("commit", f"tree {tree}\nauthor {who}\ncommitter {who}\n\nCandidate ")
    for text in texts.values():
        history.git("hash-object", "-t", "commit", "-w", "--stdin", text=text)
    one, other = sorted(texts)

    with pytest.raises(UsageError) as caught:
        Repository.at(history.folder).resolve(one[:7])

    assert re.fullmatch(
        rf"{one[:7]} is ambiguous: {one[:12]} \(Candidate \d+\), {other[:12]} \(Candidate \d+\); "
        "write more digits of it",
        str(caught.value),
    )


@given(st.text(max_size=50))
def test_no_text_is_taken_for_a_whole_hash_or_an_option(text: str) -> None:
    repository = Repository(Path("/nowhere"))

    with pytest.raises(UsageError):
        repository.commit(text)
    with pytest.raises(UsageError):
        repository.is_ancestor("0" * 40, text)


@pytest.mark.parametrize(
    "ref", ["main", "--upload-pack=reboot", "refs/../x", "refs/heads/a..b", "refs/x:y", "refs/"]
)
def test_what_is_no_ref_is_not_fetched(history: History, ref: str) -> None:
    three(history)

    with pytest.raises(UsageError, match="is not a ref"):
        Repository.at(history.folder).fetch(ref)


def test_mirror_has_all_branches_and_tags_and_takes_what_is_new(history: History, tmp_path: Path) -> None:
    first, *_ = three(history)
    history.git("tag", "v1", first)
    folder = tmp_path / "mirrors" / "product.git"
    Repository.mirror(str(history.folder), folder)
    history.git("checkout", "--quiet", "-b", "side")
    newest = history.commit("New", {"file": "new"})

    mirror = Repository.mirror(str(history.folder), folder)

    assert newest == mirror.resolve(newest)
    assert first == mirror._git.run("rev-parse", "v1").strip()
    assert ["product.git", "product.git.lock"] == sorted(path.name for path in folder.parent.iterdir())


def test_mirror_has_what_is_checked_out_though_it_is_on_no_branch(history: History, tmp_path: Path) -> None:
    first, *_ = three(history)
    history.git("checkout", "--quiet", first)
    detached = history.commit("On no branch", {"file": "x"})

    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    assert detached == mirror.resolve(detached[:10])


def test_repository_without_a_commit_has_none(history: History, tmp_path: Path) -> None:
    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    with pytest.raises(UsageError, match="does not exist"):
        mirror.resolve("1234567")


def test_mirror_keeps_what_was_pushed_over(history: History, tmp_path: Path) -> None:
    *_, third = three(history)
    Repository.mirror(str(history.folder), tmp_path / "m.git")
    history.git("reset", "--quiet", "--hard", "HEAD~1")
    history.commit("Instead", {"file": "instead"})

    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    assert third == mirror.resolve(third[:10])


def test_what_a_kill_left_of_a_mirror_is_made_anew(history: History, tmp_path: Path) -> None:
    first, *_ = three(history)
    begun = tmp_path / "m.git.abc.part"
    begun.mkdir()
    (begun / "HEAD").write_text("half")

    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    assert first == mirror.resolve(first)
    assert not begun.exists()


@pytest.mark.parametrize("written", ["", "gitdir", "gitdir commondir", "gitdir commondir HEAD"])
def test_worktree_that_a_kill_left_half_made_does_not_refuse_the_next_fetch(
    history: History, tmp_path: Path, written: str
) -> None:
    """Git writes a HEAD of zeros first, which a fetch takes for a commit that it should have."""
    first, *_ = three(history)
    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")
    begun = tmp_path / "m.git/worktrees/half"
    texts = {"gitdir": str(tmp_path / "half/.git"), "commondir": "../..", "HEAD": "0" * len(first)}
    with mirror.worktree(first, tmp_path / "trees") as path:
        begun.mkdir()
        for name in written.split():
            (begun / name).write_text(f"{texts[name]}\n")
        fourth = history.commit("Fourth", {"file": "fourth"})
        again = Repository.mirror(str(history.folder), tmp_path / "m.git")

        assert fourth == again.resolve(fourth)
        assert [path.name] == [each.name for each in begun.parent.iterdir()]


def test_what_a_kill_left_in_a_mirror_does_not_refuse_the_next_fetch(
    history: History, tmp_path: Path
) -> None:
    three(history)
    folder = tmp_path / "m.git"
    Repository.mirror(str(history.folder), folder)
    left = [folder / "packed-refs.lock", folder / "refs/heads/main.lock", folder / "objects/pack/tmp_pack_x"]
    for path in left:
        path.write_text("half")
    newest = history.commit("New", {"file": "new"})

    mirror = Repository.mirror(str(history.folder), folder)

    assert newest == mirror.resolve(newest)
    assert [] == [path for path in left if path.exists()]


def test_processes_that_make_one_mirror_at_once_all_get_it(history: History, tmp_path: Path) -> None:
    *_, newest = three(history)
    script = f"""
from pathlib import Path
from perftrend.clients.git import Repository
print(Repository.mirror({str(history.folder)!r}, Path({str(tmp_path / "m.git")!r})).resolve({newest[:9]!r}))
"""
    started = [
        subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]

    assert [newest] * 4 == [process.communicate()[0].strip() for process in started]
    assert ["m.git", "m.git.lock", "source"] == sorted(path.name for path in tmp_path.iterdir())


def test_failed_mirror_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match=r"cannot fetch from /.*/nowhere: .*; check the address"):
        Repository.mirror(str(tmp_path / "nowhere"), tmp_path / "m.git")

    assert ["m.git.lock"] == [path.name for path in tmp_path.iterdir()]


def test_ref_of_a_change_is_fetched_under_its_name(history: History, tmp_path: Path) -> None:
    three(history)
    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")
    patch = history.commit("Patch", {"file": "patch"})
    history.git("update-ref", "refs/changes/34/1234/5", patch)
    history.git("reset", "--quiet", "--hard", "HEAD~1")

    assert (patch,) == mirror.fetch("refs/changes/34/1234/5")
    assert "Patch" == Repository.at(tmp_path / "m.git").commit(patch).subject


def test_ref_can_be_fetched_from_elsewhere(history: History, tmp_path: Path) -> None:
    three(history)
    other = History(tmp_path / "other")
    made = other.commit("Other", {"file": "1"})
    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    assert (made,) == mirror.fetch("refs/heads/main", url=str(other.folder))


def test_ref_that_does_not_exist_is_told(history: History, tmp_path: Path) -> None:
    three(history)
    mirror = Repository.mirror(str(history.folder), tmp_path / "m.git")

    with pytest.raises(ServiceError, match="refs/changes/1/1/1"):
        mirror.fetch("refs/changes/1/1/1")


def test_folder_without_a_repository_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a git repository"):
        Repository.at(tmp_path)
    with pytest.raises(UsageError, match="is not a git repository"):
        Repository.at(tmp_path / "nowhere")


def test_shallow_repository_does_not_pretend_to_know_its_history(history: History, tmp_path: Path) -> None:
    first, _, third = three(history)
    shallow = tmp_path / "shallow"
    subprocess.run(
        ["git", "clone", "--quiet", "--depth=1", f"file://{history.folder}", str(shallow)],
        check=True,
        capture_output=True,
    )
    repository = Repository.at(shallow)

    with pytest.raises(UsageError, match="does not exist"):
        repository.history(first, third)
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        repository.history(third, third)
    with pytest.raises(UsageError, match="git fetch --unshallow"):
        Repository.mirror(str(shallow), tmp_path / "m.git")


def test_configuration_and_variables_of_the_user_change_nothing(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, _ = three(history)
    home = tmp_path / "home"
    home.mkdir()
    hook = tmp_path / "hooks" / "post-checkout"
    hook.parent.mkdir()
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (home / ".gitconfig").write_text(
        f"[core]\nhooksPath = {hook.parent}\nautocrlf = true\n[log]\nshowSignature = true\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_TRACE", "1")
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    repository = Repository.mirror(str(history.folder), tmp_path / "m.git")

    with repository.worktree(second) as path:
        assert b"1\n" == (path / "file").read_bytes()
    assert [second] == [commit.hash for commit in repository.history(first, second)]
    assert not (tmp_path / "hooked").exists()


def test_worktree_is_exactly_the_commit_and_removed_afterwards(history: History) -> None:
    first, *_ = three(history)
    repository = Repository.at(history.folder)

    with repository.worktree(first) as path:
        (path / "made").mkdir()
        (path / "made" / "here").write_text("by a build")
        assert "0\n" == (path / "file").read_text()
        assert (
            first == subprocess.check_output(["git", "-C", str(path), "rev-parse", "HEAD"], text=True).strip()
        )

    assert not path.exists()
    assert [] == list(path.parent.iterdir())
    assert 1 == len(history.git("worktree", "list").splitlines())


def test_same_commit_can_be_checked_out_twice_at_once(history: History) -> None:
    first, *_ = three(history)
    repository = Repository.at(history.folder)

    with repository.worktree(first) as one, repository.worktree(first) as other:
        assert one != other
        assert (one / "file").exists()
        assert (other / "file").exists()


def test_checkouts_that_come_and_go_at_once_do_not_disturb_each_other(
    history: History, *, thorough: bool
) -> None:
    first, *_ = three(history)
    repository = Repository.at(history.folder)

    def check_out(_: int) -> str:
        with repository.worktree(first) as path:
            return (path / "file").read_text()

    with ThreadPoolExecutor(4) as pool:
        assert {"0\n"} == set(pool.map(check_out, range(100 if thorough else 40)))

    assert 1 == len(history.git("worktree", "list").splitlines())


def test_worktree_of_a_killed_process_is_removed_at_the_next_start(history: History, tmp_path: Path) -> None:
    first, *_ = three(history)
    script = f"""
import os, signal
from pathlib import Path
from perftrend.clients.git import Repository
repository = Repository.at(Path({str(history.folder)!r}))
with repository.worktree({first!r}, Path({str(tmp_path / "trees")!r})):
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    left = [path for path in (tmp_path / "trees").iterdir() if path.is_dir()]

    with Repository.at(history.folder).worktree(first, tmp_path / "trees") as path:
        now = [each for each in (tmp_path / "trees").iterdir() if each.is_dir()]

    assert -signal.SIGKILL == done.returncode
    assert 1 == len(left)
    assert [path] == now
    assert 1 == len(history.git("worktree", "list").splitlines())


def test_worktree_of_an_unknown_commit_is_refused(history: History) -> None:
    three(history)

    with pytest.raises(UsageError, match="does not exist"), Repository.at(history.folder).worktree("0" * 40):
        pytest.fail("there is no such commit")


def test_git_that_takes_too_long_is_ended(
    history: History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in of git writes down the process that it started, which has to end with it."""
    program = tmp_path / "bin" / "git"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nsleep 1000 &\necho $! > {tmp_path}/child\nwait\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    repository = Repository(history.folder)

    with pytest.raises(ServiceError, match=r"did not send its commits within 0\.5 s"):
        repository.fetch("refs/heads/main", url="https://git.example.org/product", timeout_s=0.5)

    child = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}")
    deadline = time.monotonic() + 10  # a busy machine lets a killed process wait for its end
    while lives(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not lives(child)


def lives(process: Path) -> bool:
    """Tell whether a process, by its folder in /proc, has not ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
