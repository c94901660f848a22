"""The history of the example: reproducible, with one commit that matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftrend.builds import example, load
from perftrend.clients.git import Repository
from perftrend.clients.git.program import Git


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> example.Example:
    return example.make(tmp_path_factory.mktemp("made") / "example.git")


def test_history_is_the_same_wherever_and_whenever_it_is_made(made: example.Example, tmp_path: Path) -> None:
    other = example.make(tmp_path / "elsewhere")

    assert (made.old, made.new) == (other.old, other.new)
    assert other == example.make(tmp_path / "elsewhere")


def test_one_commit_of_32_touches_the_program_and_is_not_in_the_middle(made: example.Example) -> None:
    repository = Repository.at(made.folder)
    commits = repository.history(made.old, made.new)
    touching = [
        place for place, each in enumerate(commits) if f"+++ b/{example.FILE}" in repository.diff(each.hash)
    ]

    assert 32 == len(commits)
    assert 32 == len({each.subject for each in commits})
    [place] = touching
    assert example.SLOW == commits[place].subject
    assert place not in {0, 7, 15, 16, 23, 31}
    assert ["-EXTRA_RULES = 0", "+EXTRA_RULES = 20"] == [
        line for line in repository.diff(commits[place].hash) if line[0] in "+-" and "EXTRA" in line
    ]


def test_commits_are_each_later_than_the_one_before(made: example.Example) -> None:
    moments = [each.committed for each in Repository.at(made.folder).history(made.old, made.new)]

    assert sorted(set(moments)) == moments


def test_what_somebody_did_to_it_is_undone(made: example.Example, tmp_path: Path) -> None:
    folder = tmp_path / "example.git"
    first = example.make(folder)
    Git(folder).run("update-ref", "refs/heads/main", first.old)

    assert first == example.make(folder)
    assert first.new == Git(folder).run("rev-parse", "refs/heads/main").strip()


def test_it_names_nobody_who_could_be_somebody(made: example.Example) -> None:
    told = Git(made.folder).run("log", "--format=%an <%ae>%n%cn <%ce>", "main").split("\n")

    assert {"perftrend example <example@perftrend.invalid>", ""} == set(told)


def test_its_profile_builds_the_program(made: example.Example) -> None:
    profile = load(example.PROFILE)

    assert any(Path(example.FILE).parent.name in command for command in profile.build)
