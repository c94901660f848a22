"""The order of halving is that of the installed git, on generated histories with merges and skips."""

import os
import random
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from perftrend.bisect.history import CommitHistory

ROOT = 0


@dataclass(frozen=True)
class Known:
    hash: str
    parents: tuple[str, ...]


class Repository:
    """A bare repository with a generated history: commit i has the mark i + 1."""

    def __init__(self, folder: Path, parents: list[list[int]]) -> None:
        self.folder = folder
        self.git("init", "--quiet", "--bare", "--initial-branch=main", str(folder), at=folder.parent)
        marks = folder / "marks"
        self.git("fast-import", "--quiet", f"--export-marks={marks}", text=_stream(parents))
        lines = dict(line.split() for line in marks.read_text(encoding="ascii").splitlines())
        self.hashes = [lines[f":{index + 1}"] for index in range(len(parents))]

    def git(self, *arguments: str, at: Path | None = None, text: str | None = None) -> str:
        places = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=at or self.folder,
            input=text,
            env={**places, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    def suspects(self) -> set[str]:
        """Return what git itself says at the end."""
        log = self.git("bisect", "log")
        return set(re.findall(r"^# (?:possible )?first bad commit: \[(\w+)\]", log, re.MULTILINE))

    def history(self, old: str, new: str, *, first_parent: bool = False) -> CommitHistory:
        listed = self.git("rev-list", "--reverse", "--parents", f"{old}..{new}").splitlines()
        commits = [Known(line.split()[0], tuple(line.split()[1:])) for line in listed]
        return CommitHistory(old, commits, first_parent=first_parent)


def _stream(parents: list[list[int]]) -> str:
    """Write a fast-import stream; each commit a minute after the one before."""
    lines = []
    for index, known in enumerate(parents):
        lines += ["commit refs/heads/main", f"mark :{index + 1}"]
        lines += [f"committer A <a@example.org> {1700000000 + 60 * index} +0000", "data 0"]
        lines += [f"{'merge' if place else 'from'} :{parent + 1}" for place, parent in enumerate(known)]
        lines += ["deleteall", f"M 644 inline file\ndata {len(str(index))}\n{index}\n"]
    return "\n".join(lines) + "\n"


def _random_parents(choice: random.Random, size: int, merges: float) -> list[list[int]]:
    parents: list[list[int]] = [[]]
    tips = [0]
    for index in range(1, size):
        first = choice.choice(tips) if choice.random() < 0.9 else choice.randrange(index)
        known = [first]
        others = [tip for tip in tips if tip != first]
        if others and (choice.random() < merges or index == size - 1):
            count = len(others) if index == size - 1 else choice.randint(1, min(2, len(others)))
            known += choice.sample(others, count)
        parents.append(known)
        tips = [tip for tip in tips if tip not in known] + [index]
        if choice.random() < merges and len(tips) < 4:
            tips.append(choice.randrange(index))
    return parents


@pytest.fixture(params=range(12))
def generated(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Repository, random.Random]:
    choice = random.Random(request.param)  # noqa: S311 - repeatable
    merges = 0.0 if request.param < 2 else 0.3
    size = choice.choice([9, 40, 120, 2300 if merges == 0 else 200])
    return Repository(tmp_path / "repository", _random_parents(choice, size, merges)), choice


def _answers(choice: random.Random) -> Iterator[str]:
    while True:
        yield choice.choices(["good", "bad", "skip"], [4, 4, 3])[0]


def _compared_with_bisect(repository: Repository, choice: random.Random, *options: str) -> list[str]:
    """Bisect by git with random answers; at each step the history must choose the same commit."""
    old, new = repository.hashes[ROOT], repository.hashes[-1]
    history = repository.history(old, new, first_parent="--first-parent" in options)
    repository.git("bisect", "start", "--no-checkout", *options, new, old)
    good, bad, skipped, seen = [old], new, [], []
    for answer in _answers(choice):
        halving = history.next_commit(good=good, bad=bad, skipped=skipped)
        if halving.commit is None:
            # Where skipped commits hide it, git lists commits off the mainline, too.
            assert set(halving.suspects) == repository.suspects() & set(history.commits)
            return seen
        head = repository.git("rev-parse", "BISECT_HEAD").strip()

        assert head == halving.commit, f"after {good=} {bad=} {skipped=}"

        seen.append(answer)
        if answer == "good":
            good.append(head)
        elif answer == "bad":
            bad = head
        else:
            skipped.append(head)
        subprocess.run(
            ["git", "bisect", answer], cwd=repository.folder, capture_output=True, check=False
        )  # 2: only skipped commits are left
    raise AssertionError


def test_each_step_is_gits_own(generated: tuple[Repository, random.Random]) -> None:
    repository, choice = generated
    for _ in range(3):
        assert _compared_with_bisect(repository, choice)


def test_each_step_along_the_mainline_is_gits_own(generated: tuple[Repository, random.Random]) -> None:
    repository, choice = generated
    for _ in range(2):
        _compared_with_bisect(repository, choice, "--first-parent")


def test_commit_without_skips_is_what_rev_list_prints(generated: tuple[Repository, random.Random]) -> None:
    repository, choice = generated
    old, new = repository.hashes[ROOT], repository.hashes[-1]
    history = repository.history(old, new)
    for _ in range(10):
        good = [old, *choice.sample(repository.hashes[:-1], choice.randint(0, 3))]
        expected = repository.git("rev-list", "--bisect", new, *(f"^{each}" for each in good)).strip()

        found = history.next_commit(good=good, bad=new)

        assert expected in (found.commit, *found.suspects)
