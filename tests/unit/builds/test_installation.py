"""A build is installed, identified, and measured by a command."""

from __future__ import annotations

import os
import re
import signal
from functools import partial
from pathlib import Path

import pytest

from perftrend.builds import builder, observation
from perftrend.builds.observation import Gauges, Pulse
from perftrend.errors import BuildError, SettingsError, TestbedError
from perftrend.model import Better, MetricSamples
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


def test_build_is_installed_on_each_machine_with_a_device(opened: Open, commit: str) -> None:
    show = ["printf", "<%s>", "{ssh_options...}", "{device}:x"]
    builds = opened(install=[show], identify=["echo", "{commit}"])
    hostile = "$(reboot) `reboot` ; * \\n"

    builds.install(builds.build(commit), [(["-F", hostile], "perf@dut"), ([], "dut2")])

    log = builds.log_of(commit, "install").read_text()
    assert f"<-F><{hostile}><perf@dut:x>" in log
    assert "<dut2:x>" in log
    other = opened(identify=["echo", "{device}"])
    with pytest.raises(TestbedError, match=r"but echo names no commit; another version runs on dut2, see"):
        other.install(other.build(commit), [([], commit), ([], "dut2")])
    with pytest.raises(SettingsError, match="installs by ssh, but no testbed is involved"):
        other.install(other.build(commit))


def test_failed_installation_is_the_commits_fault(opened: Open, commit: str) -> None:
    with pytest.raises(BuildError, match="install failed: sh -c 'exit 4' ended with 4; see ") as caught:
        install(opened, commit, install=[["sh", "-c", "exit 4"]])

    assert "install" == caught.value.step


def test_fault_of_the_machine_in_an_earlier_attempt_is_not_that_of_this_one(
    opened: Open, commit: str, tmp_path: Path
) -> None:
    """All attempts to install a commit are in the same log, and so are the commands themselves."""
    mark = tmp_path / "tried"
    script = f"test -e {mark} || echo 'dpkg frontend lock was locked' >&2; touch {mark}; exit 1"
    command = [["sh", "-c", script]]

    with pytest.raises(TestbedError, match="another program installs packages"):
        install(opened, commit, install=command)
    with pytest.raises(BuildError, match="install failed"):
        install(opened, commit, install=command)


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
        ("v1.2-rc0~3-g0123456ab~b5", "reports 0123456ab; another version runs on this machine"),
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

    assert {"bench": MetricSamples((12.5,), "s", Better.LOWER)} == measured.values
    assert ({}, commit) == (measured.failed, measured.commit)
    assert measured.started <= measured.finished


def test_measurement_leaves_nothing_for_the_next_one(opened: Open, commit: str) -> None:
    measure = {"command": ["sh", "-c", "ls {artifacts} | wc -l; touch {artifacts}/more; echo x >> out"]}
    builds = opened(measure=measure)

    built = builds.build(commit)
    counts = [builds.measure(built).values["command"].samples for _ in range(2)]

    assert [(1.0,), (1.0,)] == counts
    assert opened(measure=measure).build(commit).was_cached
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
        ("echo fast", "'fast' is not a number; .*; see "),
        ("true", "it printed no number; see "),
        ("sleep 1000", "exceeded the timeout of 0.5 s"),
    ],
)
def test_failed_measurement_is_a_test_that_failed(opened: Open, commit: str, command: str, why: str) -> None:
    builds = opened(measure={"command": ["sh", "-c", command]}, timeouts_s={"measure": 0.5})

    measured = builds.measure(builds.build(commit))

    assert {} == measured.values
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(measured.failed["command"])


def test_program_that_hangs_is_not_waited_for_much_longer_than_others_take(
    history: History, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_HANGS_AFTER_S", 0.1)
    works, hangs = (history.commit(program, {"in": program}) for program in ("echo 1", "sleep 1000000"))
    builds = opened(measure={"command": ["sh", "out"]})

    first, second = (builds.measure(builds.build(each)) for each in (works, hangs))

    assert {} == first.failed
    assert "exceeded the timeout" in second.failed["command"]


def test_continued_search_does_not_wait_longer_for_a_program_that_hangs(
    history: History, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "_HANGS_AFTER_S", 0.1)
    works, hangs = (history.commit(program, {"in": program}) for program in ("echo 1", "sleep 1000000"))
    before, after = (opened(measure={"command": ["sh", "out"]}) for _ in range(2))

    after.expect_durations_of([before.measure(before.build(works))])

    assert "exceeded the timeout" in after.measure(after.build(hangs)).failed["command"]


@pytest.mark.parametrize(("cores", "number"), [("one", 1), ("all", len(os.sched_getaffinity(0)))])
def test_command_may_use_the_cores_that_the_profile_says(
    opened: Open, commit: str, cores: str, number: int
) -> None:
    builds = opened(measure={"command": ["sh", "-c", "nproc; echo {jobs}"], "cores": cores})

    measured = builds.measure(builds.build(commit))

    assert (number, number) == measured.values["command"].samples


def test_samples_of_all_starts_of_the_command_are_those_of_the_measurement(
    opened: Open, commit: str, tmp_path: Path
) -> None:
    script = f"ls | wc -l; echo x >> {tmp_path}/starts; touch more; wc -l < {tmp_path}/starts"
    builds = opened(measure={"command": ["sh", "-c", script], "repetitions": 3})

    measured = builds.measure(builds.build(commit))

    assert (1.0, 1.0, 1.0, 2.0, 1.0, 3.0) == measured.values["command"].samples


def test_measurements_go_through_the_variants(opened: Open, commit: str) -> None:
    script = 'echo "{variant}$LAYOUT_VARIANT"; printf %s "$LAYOUT_PADDING" | wc -c'
    builds = opened(measure={"command": ["sh", "-c", script], "variants": 3})

    built = builds.build(commit)
    measured = [builds.measure(built, number) for number in range(1, 5)]

    assert [(0, 0), (11, 1032), (22, 2064), (0, 0)] == [each.values["command"].samples for each in measured]
    assert [0, 1, 2, 0] == [each.variant for each in measured]


def flickering(monkeypatch: pytest.MonkeyPatch, *speeds: float) -> None:
    """Show builds a machine with one core whose pulses take this many milliseconds, in turn."""
    pulses = iter(speeds)
    machine = partial(
        Gauges,
        cores=lambda: [min(os.sched_getaffinity(0))],
        pulse=lambda _: Pulse(next(pulses), 0.001),
        usage=dict,
        sleep=lambda _: None,
    )
    monkeypatch.setattr(observation, "Gauges", machine)


def test_start_at_two_speeds_is_repeated_and_logged(
    opened: Open, commit: str, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flickering(monkeypatch, 0.001, 0.0016, 0.001, 0.001)
    script = f"echo x >> {tmp_path}/starts; wc -l < {tmp_path}/starts"
    builds = opened(measure={"command": ["sh", "-c", script]})

    measured = builds.measure(builds.build(commit))

    assert ((2.0,), "") == (measured.values["command"].samples, measured.disturbed)
    changed = "the machine changed its speed: core [0-9]+ was 1.60 times as slow after it as before"
    assert re.fullmatch(f"ours: {changed}; measuring again", said[-1])
    assert re.search(rf"^# .*: {changed}$", builds.log_of(commit, "measure").read_text(), re.MULTILINE)


def test_measurement_that_stays_disturbed_is_marked_and_used(
    opened: Open, commit: str, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flickering(monkeypatch, *(0.001, 0.0016) * 3)
    builds = opened(measure={"command": ["cat", "out"]})

    measured = builds.measure(builds.build(commit))

    assert (12.5,) == measured.values["command"].samples
    assert measured.disturbed.startswith("the machine changed its speed: ")
    assert said[-1].endswith("; it is used anyway")


def test_machine_that_is_only_asked_from_is_not_observed(
    opened: Open, commit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    flickering(monkeypatch)
    builds = opened(measure={"command": ["nproc"], "remote": True})

    measured = builds.measure(builds.build(commit))

    assert (len(os.sched_getaffinity(0)),) == measured.values["command"].samples


def test_machine_that_cannot_measure_is_told(opened: Open, commit: str) -> None:
    builds = opened(measure={"command": ["no-such-program"]})

    with pytest.raises(TestbedError, match="no-such-program is missing on this machine"):
        builds.measure(builds.build(commit))


def test_profile_without_a_command_is_measured_elsewhere(opened: Open, commit: str) -> None:
    builds = opened()

    with pytest.raises(SettingsError, match="is measured on a testbed"):
        builds.measure(builds.build(commit))
