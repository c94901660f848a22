"""Builds: the commands that run, the artifacts, and the report of a failure."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from perftrend.builds import open_builds as opened_by
from perftrend.errors import BuildError, SettingsError, TestbedError, UsageError
from perftrend.settings import ProjectSettings
from tests.products.histories import History
from tests.unit.builds.conftest import Open, ended


def script(text: str) -> list[str]:
    return ["{python}", "-c", text.replace("{", "{{").replace("}", "}}")]


def failing(opened: Open, commit: str, **profile: object) -> BuildError:
    with pytest.raises(BuildError) as caught:
        opened(**profile).build(commit)
    assert "\n" not in str(caught.value)
    return caught.value


def test_commit_is_built_in_a_checkout_of_its_own_and_kept(history: History, opened: Open) -> None:
    first = history.commit("First", {"in": "1"})
    history.commit("Second", {"in": "2"})
    (history.folder / "in").write_text("not committed")
    builds = opened(device_options={"program": "{artifacts}/out", "version": "{commit}"})

    built = builds.build(first)

    assert "1" == (built.folder / "out").read_text()
    assert {"program": f"{built.folder}/out", "version": first} == built.device_options
    assert (first, False) == (built.commit, built.was_cached)
    assert built.folder.is_absolute()
    assert not (history.folder / "out").exists()
    assert [] == list((builds.folder / "worktrees").iterdir())


def test_commit_is_built_once(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})
    first = opened().build(commit)

    again = opened().build(commit)

    assert again.was_cached
    assert (first.folder, first.took_s) == (again.folder, again.took_s)


def test_other_way_of_building_builds_anew(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})
    opened().build(commit)

    other = opened(environment={"FLAGS": "-O3"}).build(commit)

    assert not other.was_cached


def test_placeholders_are_filled_in(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})
    write = script("import sys; open('out', 'w').write('|'.join(sys.argv[1:]))")

    built = opened(build=[[*write, "{commit}", "{source}", "{python}", "{jobs}", "{{}}", "a b;$(x)*"]]).build(
        commit
    )

    told = (built.folder / "out").read_text().split("|")
    assert (commit, sys.executable, "{}", "a b;$(x)*") == (told[0], told[2], told[4], told[5])
    assert "worktrees" in told[1]
    assert int(told[3]) >= 1


def test_folders_are_kept_with_all_that_is_in_them(history: History, opened: Open) -> None:
    commit = history.commit("First", {"lib/a": "a", "lib/deep/b": "b", "c.txt": "c", "d.py": "d"})

    built = opened(build=[], artifacts=["lib", "*.txt"]).build(commit)

    kept = sorted(str(path.relative_to(built.folder)) for path in built.folder.rglob("*") if path.is_file())
    assert ["c.txt", "lib/a", "lib/deep/b"] == kept


def test_everything_is_kept_without_what_belongs_to_git(history: History, opened: Open) -> None:
    commit = history.commit("First", {"a": "a", ".hidden": "h"})
    link = script("import os; os.symlink('/nowhere', 'broken'); os.symlink('/etc', 'folder')")

    built = opened(build=[link], artifacts=["**/*"]).build(commit)

    assert [".hidden", "a"] == sorted(path.name for path in built.folder.iterdir())


def test_permission_to_run_is_kept(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})

    built = opened(build=[["cp", "in", "out"], ["chmod", "755", "out"]]).build(commit)

    assert 0o755 == (built.folder / "out").stat().st_mode & 0o777


def test_tokens_of_the_job_are_not_passed_on(
    history: History, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change under review brings its own build commands along."""
    commit = history.commit("First", {"in": "1"})
    for name in ("PERFTREND_GERRIT_TOKEN", "JENKINS_TOKEN", "GIT_ASKPASS", "CCACHE_DIR"):
        monkeypatch.setenv(name, "s3cret")
    write = script("import os; open('out', 'w').write(' '.join(os.environ))")

    built = opened(build=[write], environment={"FLAGS": "x"}, inherit=["CCACHE_DIR"]).build(commit)

    names = (built.folder / "out").read_text().split()
    assert {"PATH", "FLAGS", "CCACHE_DIR"} <= set(names)
    assert not {"PERFTREND_GERRIT_TOKEN", "JENKINS_TOKEN", "GIT_ASKPASS"} & set(names)


def test_failure_tells_the_step_the_command_the_log_and_what_was_said_last(
    history: History, opened: Open
) -> None:
    commit = history.commit("First", {"in": "1"})
    fail = script("import sys; [print(n) for n in range(99)]; print('\\x1b[31mbroken\\x1b[0m'); sys.exit(3)")

    error = failing(opened, commit, build=[["true"], fail, ["touch", "later"]])

    assert f"ours at {commit[:12]}: build failed: " in str(error)
    assert f"ended with 3; see {error.log}" in str(error)
    assert "build" == error.step
    assert 20 == len(error.last_lines)
    assert ("98", "broken") == error.last_lines[-2:]
    log = Path(error.log).read_text()
    assert "$ true\n" in log
    assert "touch later" not in log


def test_failure_is_remembered_and_leaves_nothing_that_could_be_taken_for_a_build(
    history: History, opened: Open
) -> None:
    commit = history.commit("First", {"in": "1"})
    count = script("open('/dev/stdout', 'w').write('tried'); raise SystemExit(1)")
    builds = opened(build=[count])
    errors = []
    for _ in range(2):
        with pytest.raises(BuildError) as caught:
            builds.build(commit)
        errors.append(caught.value)

    assert errors[0] is errors[1]
    assert not builds.is_cached(commit)
    assert [] == list((builds.folder / "kept").iterdir())
    assert [] == list((builds.folder / "worktrees").iterdir())


def test_build_without_the_artifacts_fails(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})

    error = failing(opened, commit, build=[["true"]])

    assert "artifacts" == error.step
    assert "the build left no file that matches out" in str(error)


def test_build_that_takes_too_long_is_ended_with_all_that_it_started(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})
    child = history.folder.parent / "child"
    wait = ["sh", "-c", f"sleep 1000 & echo $! > {child}; wait"]

    error = failing(opened, commit, build=[wait], timeouts_s={"build": 0.5})

    assert "exceeded the timeout of 0.5 s" in str(error)
    assert ended(int(child.read_text()))


def test_nothing_that_a_build_started_disturbs_the_measurement(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})
    child = history.folder.parent / "child"

    opened(build=[["sh", "-c", f"cp in out; sleep 1000 & echo $! > {child}"]]).build(commit)

    assert ended(int(child.read_text()))


def test_missing_program_is_the_machines_fault(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})

    with pytest.raises(TestbedError, match="the program no-such-program is missing on this machine"):
        opened(build=[["no-such-program"]]).build(commit)


def test_missing_program_of_the_product_is_the_commits_fault(history: History, opened: Open) -> None:
    commit = history.commit("First", {"in": "1"})

    assert "./configure ended with" in str(failing(opened, commit, build=[["./configure"]]))


@pytest.mark.parametrize(
    ("words", "meaning"),
    [
        ("cc1: fatal: No space left on device", "its disk is full; free some space"),
        ("sudo: a password is required", "sudo needs a password"),
        ("E: Could not get lock /var/lib/dpkg/lock", "another program installs packages"),
    ],
)
def test_fault_of_the_machine_is_not_blamed_on_the_commit(
    history: History, opened: Open, words: str, meaning: str
) -> None:
    commit = history.commit("First", {"in": "1"})

    with pytest.raises(TestbedError, match=meaning):
        opened(build=[["sh", "-c", f"echo '{words}' >&2; exit 1"]]).build(commit)


@pytest.mark.parametrize("commit", ["0" * 40, "main", "../../etc", "--help", ""])
def test_unknown_commit_is_refused(history: History, opened: Open, commit: str) -> None:
    history.commit("First", {"in": "1"})

    with pytest.raises(UsageError, match="commit"):
        opened().build(commit)


def test_settings_open_the_builds_of_a_mirror(history: History, tmp_path: Path) -> None:
    commit = history.commit("First", {"in": "1"})
    profiles = tmp_path / "profiles"
    profiles.mkdir()
    (profiles / "ours.yaml").write_text(f"description: x\nartifacts: [in]\nrepository: {history.folder}\n")
    project = ProjectSettings(profile="ours", profiles=profiles, builds=tmp_path / "builds")

    with opened_by(project) as builds:
        assert "1" == (builds.build(commit).folder / "in").read_text()


@pytest.mark.parametrize(
    ("project", "told"),
    [
        (ProjectSettings(), "set project.profile to the name of a profile"),
        (ProjectSettings(profile="embedded-router"), "set project.repository to its URL or path"),
    ],
)
def test_settings_that_name_no_product_are_refused(project: ProjectSettings, told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        opened_by(project)


def reviewed(history: History, folder: Path, text: str) -> ProjectSettings:
    (folder / "profiles").mkdir()
    (folder / "profiles/ours.yaml").write_text(f"description: ours\nartifacts: [in]\n{text}")
    return ProjectSettings(
        profile="ours", profiles=folder / "profiles", repository=str(history.folder), builds=folder / "builds"
    )


@pytest.mark.parametrize(
    ("profile", "problem"),
    [
        ("measure: {command: [true]}\ninstall: [[true]]\n", "profile ours installs it on this machine"),
        ("measure: {command: [true]}\nidentify: [true]\n", "profile ours installs it on this machine"),
        ("device_options: {program: x}\n", "does not pass {isolated} to the driver of the device"),
        ("measure: {command: [true]}\n", "there is no sandbox to run it in: namespaces are out of order"),
    ],
)
def test_code_under_review_is_refused_unless_all_of_it_is_confined(
    history: History, tmp_path: Path, profile: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftrend.sandbox.unusable", lambda: "namespaces are out of order")
    history.commit("First", {"in": "1"})
    project = reviewed(history, tmp_path, profile)

    with pytest.raises(SettingsError) as caught:
        opened_by(project, is_under_review=True)

    assert problem in str(caught.value)
    assert "set project.trusted to true if you trust everyone who can push a change" in str(caught.value)
    assert not (tmp_path / "builds").exists()
    opened_by(project).close()
    opened_by(project.model_copy(update={"trusted": True}), is_under_review=True).close()


def test_rules_of_a_switch_under_review_are_refused_unless_they_are_trusted(
    history: History, tmp_path: Path
) -> None:
    """The switch needs root, which no sandbox gives."""
    commit = history.commit("First", {"flows.txt": "actions=drop\n"})
    project = ProjectSettings(profile="ovs-flows", repository=str(history.folder), builds=tmp_path / "builds")

    with pytest.raises(SettingsError, match=r"does not pass \{isolated\} to the driver"):
        opened_by(project, is_under_review=True)
    with opened_by(project.model_copy(update={"trusted": True}), is_under_review=True) as builds:
        built = builds.build(commit)

        assert {"flows": str(built.folder / "flows.txt")} == built.device_options
        assert "actions=drop\n" == (built.folder / "flows.txt").read_text()
