"""Options that several jobs share."""

from __future__ import annotations

import argparse
import ctypes
import importlib
import signal
import time
import weakref
from contextlib import suppress
from pathlib import Path

import pytest

from perftrend.builds import Profile, profile_of
from perftrend.cli import options
from perftrend.errors import EXIT_INTERRUPTED

PR_GET_DUMPABLE = 3


@pytest.mark.parametrize("job", ["trending", "perftest", "bisect", "bisectrun"])
def test_search_of_ndr_and_pdr_is_chosen_for_every_job_that_measures(job: str) -> None:
    given = importlib.import_module(f"jobs.{job}").parser().parse_args(["--search", "binary"])

    assert "binary" == options.of_suites(given)["search.strategy"]


def loaded(*words: str, job: str = "bisect") -> tuple[argparse.Namespace, Profile]:
    given = importlib.import_module(f"jobs.{job}").parser().parse_args(words)
    return given, profile_of(options.load_settings(given, options.of_program(given)).project)


@pytest.mark.parametrize("job", ["perftest", "bisect", "bisectrun"])
def test_program_needs_no_settings(job: str) -> None:
    words = [
        "--measure",
        "./bench --repeat '5 6'",
        "--build",
        "make -j{jobs}",
        "--unit",
        "ms",
        "--better",
        "lower",
    ]

    given, profile = loaded(*words, "--parameter", "cores=all", job=job)

    assert profile.measure is not None
    assert (("./bench", "--repeat", "5 6"), "ms", "lower", "all") == (
        profile.measure.command, profile.measure.unit, profile.measure.better, profile.measure.cores
    )  # fmt: skip
    assert ((("make", "-j{jobs}"),), ("**/*",)) == (profile.build, profile.artifacts)
    assert sorted([*words, "--parameter", "cores=all"]) == sorted(
        word for pair in options.words_of_program(given) for word in pair
    )


@pytest.mark.parametrize(
    "command",
    ["./bench | tail -1", "./configure && make", "N=1 ./bench", "./bench $HOME", "cat *.txt", "a; b"],
)
def test_command_of_a_shell_is_run_by_one(command: str) -> None:
    _, profile = loaded("--measure", command)

    assert profile.measure is not None
    assert ("sh", "-c", command) == profile.measure.command


def test_program_replaces_the_product_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("project: {profile: vpp, parameters: {plugins: acl}}")

    _, profile = loaded("--settings", str(settings), "--measure", "./bench")

    assert "command" == profile.name


def test_option_outweighs_a_parameter_of_the_settings(tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("project: {profile: command, parameters: {measure: ./old, unit: ms, cores: all}}")

    _, profile = loaded("--settings", str(settings), "--measure", "./bench", "--unit", "s")

    assert profile.measure is not None
    assert (("./bench",), "s", "all") == (
        profile.measure.command, profile.measure.unit, profile.measure.cores
    )  # fmt: skip


def test_job_hides_its_memory_from_other_programs_of_its_user() -> None:
    is_dumpable = ctypes.CDLL(None).prctl
    before = is_dumpable(PR_GET_DUMPABLE)

    with options.report_errors():
        within = is_dumpable(PR_GET_DUMPABLE)

    assert 0 == within
    assert before == is_dumpable(PR_GET_DUMPABLE)


class Collected:
    """Something that weak references can be made to."""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_that_comes_while_a_finalizer_runs_ends_the_job(number: signal.Signals) -> None:
    before = signal.getsignal(signal.SIGTERM)
    collected = Collected()
    calls: list[str] = []

    def call_back(_: object) -> None:
        calls.append("before")
        signal.raise_signal(number)
        calls.append("after")

    reference = weakref.ref(collected, call_back)
    with options.report_errors() as outcome:
        del collected
        time.sleep(60)
        calls.append("went on")
    signal.signal(signal.SIGTERM, before)

    assert reference() is None
    assert ["before"] == calls
    assert EXIT_INTERRUPTED == outcome.exit_code


def test_signal_is_remembered_if_an_error_replaces_the_interruption() -> None:
    before = signal.getsignal(signal.SIGTERM)

    with options.report_errors() as outcome:
        with suppress(ZeroDivisionError):
            try:
                signal.raise_signal(signal.SIGTERM)
            finally:
                _ = 1 / 0
        ended = outcome.is_ending
    signal.signal(signal.SIGTERM, before)

    assert ended


def test_other_error_of_a_finalizer_is_shown_and_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    collected = Collected()
    reference = weakref.ref(collected, lambda _: 1 / 0)

    with options.report_errors() as outcome:
        del collected

    assert reference() is None
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert 0 == outcome.exit_code
