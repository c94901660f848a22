"""Installing a build, seeing to it that it is the one that is there, and measuring it by a command."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from perftrend.errors import BuildError, SettingsError, TestbedError
from perftrend.model import Better, Sampled
from tests.products.histories import History
from tests.unit.builds.conftest import Open


@pytest.fixture
def commit(history: History) -> str:
    return history.commit("First", {"in": "12.5\n"})


def install(opened: Open, commit: str, **profile: object) -> None:
    builds = opened(**profile)
    builds.install(builds.build(commit))


def test_install_commands_run_with_the_artifacts(opened: Open, commit: str, tmp_path: Path) -> None:
    install(
        opened,
        commit,
        install=[["cp", "out", f"{tmp_path}/installed"], ["cp", "{artifacts}/out", f"{tmp_path}/b"]],
    )

    assert "12.5\n" == (tmp_path / "installed").read_text() == (tmp_path / "b").read_text()


def test_failed_installation_is_the_commits_fault(opened: Open, commit: str) -> None:
    with pytest.raises(BuildError, match="install failed: sh -c 'exit 4' ended with 4; see ") as caught:
        install(opened, commit, install=[["sh", "-c", "exit 4"]])

    assert "install" == caught.value.step


def test_installed_daemon_lives_on(opened: Open, commit: str, tmp_path: Path) -> None:
    pid = tmp_path / "pid"

    install(opened, commit, install=[["sh", "-c", f"sleep 1000 & echo $! > {pid}"]])

    process = int(pid.read_text())
    assert Path(f"/proc/{process}").exists()
    os.kill(process, signal.SIGKILL)


@pytest.mark.parametrize(
    "form", ["{commit}", "v1.2-rc0~3-g$(echo {commit} | cut -c 1-9)~b5", "built from {commit}."]
)
def test_installed_commit_is_recognised(opened: Open, commit: str, form: str) -> None:
    install(opened, commit, identify=["sh", "-c", f'echo "{form}"'])


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("v1.2-rc0~3-g0123456ab~b5", "says 0123456ab; another version runs on this machine"),
        ("1.2-release", "names no commit"),
        ("", "names no commit"),
    ],
)
def test_other_version_on_the_machine_is_its_fault(
    opened: Open, commit: str, version: str, told: str
) -> None:
    with pytest.raises(TestbedError, match=told):
        install(opened, commit, identify=["echo", version])


def test_six_digits_do_not_identify_a_commit(opened: Open, commit: str) -> None:
    with pytest.raises(TestbedError, match="names no commit"):
        install(opened, commit, identify=["sh", "-c", "echo {commit} | cut -c 1-6"])


def test_build_that_does_not_answer_is_the_commits_fault(opened: Open, commit: str) -> None:
    with pytest.raises(BuildError, match="identify failed: false ended with 1") as caught:
        install(opened, commit, identify=["false"])

    assert "identify" == caught.value.step


def test_command_measures(opened: Open, commit: str) -> None:
    measure = {"command": ["cat", "out"], "test": "bench", "unit": "s", "better": "lower"}
    builds = opened(measure=measure)

    measured = builds.measure(builds.build(commit))

    assert {"bench": Sampled((12.5,), "s", Better.LOWER)} == measured.values
    assert ({}, commit) == (measured.failed, measured.commit)
    assert measured.started <= measured.finished


def test_measurement_leaves_nothing_for_the_next_one(opened: Open, commit: str) -> None:
    measure = {"command": ["sh", "-c", "ls {artifacts} | wc -l; touch {artifacts}/more; echo x >> out"]}
    builds = opened(measure=measure)

    built = builds.build(commit)
    counts = [builds.measure(built).values["command"].samples for _ in range(2)]

    assert [(1.0,), (1.0,)] == counts
    assert opened(measure=measure).build(commit).was_kept
    assert [] == list((builds.folder / "measuring").iterdir())


def test_what_it_says_beside_its_numbers_is_logged_only(opened: Open, commit: str) -> None:
    builds = opened(measure={"command": ["sh", "-c", "echo warming up >&2; echo 5"]})

    measured = builds.measure(builds.build(commit))

    assert (5.0,) == measured.values["command"].samples
    assert "warming up\n5\n" in builds.log_of(commit, "measure").read_text()


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("echo 5; exit 3", "measure failed: .* ended with 3; see "),
        ("echo fast", "'fast' is no number; .*; see "),
        ("true", "it printed no number; see "),
        ("sleep 1000", "took longer than the 0.5 s that it may"),
    ],
)
def test_failed_measurement_is_a_test_that_failed(opened: Open, commit: str, command: str, why: str) -> None:
    builds = opened(measure={"command": ["sh", "-c", command]}, timeouts_s={"measure": 0.5})

    measured = builds.measure(builds.build(commit))

    assert {} == measured.values
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(measured.failed["command"])


def test_machine_that_cannot_measure_is_told(opened: Open, commit: str) -> None:
    builds = opened(measure={"command": ["no-such-program"]})

    with pytest.raises(TestbedError, match="no-such-program is missing on this machine"):
        builds.measure(builds.build(commit))


def test_profile_without_a_command_is_measured_elsewhere(opened: Open, commit: str) -> None:
    builds = opened()

    with pytest.raises(SettingsError, match="is measured on a testbed"):
        builds.measure(builds.build(commit))
