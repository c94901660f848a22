"""The command of ``git bisect run``, step by step: verdicts, retained values, and codes that stop git."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from perftrend import errors
from perftrend.bisect import single_step_runner
from perftrend.builds import Builds
from perftrend.cli import bisectrun
from perftrend.errors import BuildError, TestbedError
from perftrend.model import NOT_VALID, BuildMeasurement
from tests.products.histories import History
from tests.products.printed import FAILING, SCRIPT, scattered

SETTINGS = """
project:
  profile: command
  parameters: {build: sh build.sh, measure: sh measure.sh, unit: ops}
testbed: simulated
"""
WORKS, BREAKS = "exit 0\n", "echo 'router.c:4: error' >&2; exit 2\n"
JOB = "perftrend-bisectrun-command"


@dataclass
class Place:
    """A checkout of a product, in which a person bisects, and what was measured there."""

    bench: Any
    history: History
    hashes: list[str] = field(default_factory=list)
    measured: list[str] = field(default_factory=list)

    def range(self, *levels: float | str, broken: tuple[int, ...] = ()) -> None:
        """Commit each level, and begin to bisect from the first to the last."""
        for number, level in enumerate(levels):
            build = BREAKS if number in broken else WORKS
            script = FAILING if level == "fails" else scattered(float(level), seed=f"{number}")
            files = {SCRIPT: script, "number": f"{number}", "build.sh": build}
            self.hashes.append(self.history.commit(f"Commit {number}", files))
        self.history.git("bisect", "start", self.hashes[-1], self.hashes[0])

    def at(self, number: int) -> Place:
        """Check a commit out."""
        self.history.git("checkout", "--quiet", self.hashes[number])
        return self

    def run(self, *arguments: str) -> Any:
        settings = self.bench.folder / "settings.yaml"
        return self.bench._job(bisectrun.main, ["--settings", str(settings), *arguments])

    @property
    def own(self) -> Path:
        return self.history.folder / ".git" / "perftrend"


@pytest.fixture
def place(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Place:
    (bench.folder / "settings.yaml").write_text(SETTINGS)
    found = Place(bench, History(bench.folder / "product"))
    monkeypatch.chdir(found.history.folder)
    usual = Builds.measure

    def noted(self: Builds, built: Any, number: int) -> BuildMeasurement:
        found.measured.append(built.commit)
        return usual(self, built, number)

    monkeypatch.setattr(Builds, "measure", noted)
    return found


# ---- verdicts


@pytest.mark.parametrize("size", [0.8, 1.2])
def test_commit_is_told_to_be_like_one_of_the_ends(place: Place, size: float) -> None:
    place.range(100, 100, 100 * size, 100 * size)

    old, new = place.at(1).run(), place.at(2).run()

    assert (0, 1) == (old.exit_code, new.exit_code), old.err + new.err
    [name] = [each[:12] for each in place.hashes[2:3]]
    said = f'perftrend verdict: {name} "Commit 2" is like the new end, with a probability of '
    assert new.out.splitlines()[-1].startswith(said)


def test_commit_that_does_not_build_is_skipped_with_the_reason(place: Place) -> None:
    place.range(100, 100, 80, broken=(1,))

    ended = place.at(1).run()

    assert (125, []) == (ended.exit_code, place.measured)
    told = [each for each in ended.err.splitlines() if "cannot be judged" in each]
    assert 1 == len(told)
    assert "build failed: sh build.sh ended with 2; see " in told[0]


def test_commit_that_cannot_be_installed_is_skipped(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.range(100, 100, 80)

    def install(_: Builds, built: Any, *_devices: Any) -> None:
        if built.commit == place.hashes[1]:
            raise BuildError("it crashed at start")

    monkeypatch.setattr(Builds, "install", install)

    ended = place.at(1).run()

    assert (125, True) == (ended.exit_code, "cannot be judged: it crashed at start" in ended.err)


def test_commit_with_which_alone_the_test_fails_is_skipped(place: Place) -> None:
    place.range(100, "fails", 80)

    ended = place.at(1).run()

    assert (125, True) == (
        ended.exit_code,
        "cannot be judged: command fails, and with neither end" in ended.err,
    )


def test_commit_that_stays_in_doubt_is_skipped(place: Place) -> None:
    place.range(100, 100, 80)

    ended = place.at(1).run("--confidence", "0.99999", "--measurements", "4")

    assert (125, 4) == (ended.exit_code, len(place.measured))
    assert "cannot be judged: 4 measurements were made, and no commit is sure enough" in ended.err


def test_ends_that_agree_stop_git(place: Place) -> None:
    place.range(100, 100, 100)

    ended = place.at(1).run()

    assert 200 == ended.exit_code
    assert "cannot be judged by these ends: no difference was shown; " in ended.err
    assert re.search(r"; one of [\d.]+ % would probably have been shown\n", ended.err)
    assert place.hashes[1] not in place.measured


@pytest.mark.parametrize(("end", "name"), [(0, "old"), (2, "new")])
def test_end_that_does_not_build_stops_git(place: Place, end: int, name: str) -> None:
    place.range(100, 100, 80, broken=(end,))

    ended = place.at(1).run()

    assert (202, []) == (ended.exit_code, place.measured)
    assert f"nothing can be compared with the {name} end: " in ended.err


def test_end_itself_is_judged_without_a_measurement(place: Place) -> None:
    place.range(100, 100, 80)

    assert [0, 1] == [place.at(number).run().exit_code for number in (0, 2)]
    assert [] == place.measured


def test_ends_may_be_given_without_a_bisection(place: Place) -> None:
    place.range(100, 100, 80, 80)
    place.history.git("bisect", "reset")
    old, *_, new = place.hashes

    ended = place.at(2).run("--old", old[:10], "--new", new[:10])

    assert 1 == ended.exit_code, ended.err


def test_ends_are_named_as_in_git(place: Place) -> None:
    place.range(100, 100, 80, 80)
    place.history.git("bisect", "reset")
    place.history.git("tag", "v2.0", place.hashes[0])

    assert 1 == place.at(2).run("--old", "v2.0", "--new", "main").exit_code


@pytest.mark.parametrize(
    ("ends", "message"),
    [
        (
            ["--old", "main", "--new", "v2.0"],
            "the old end is newer than the new one; give --old v2.0 and --new main",
        ),
        (["--old", "v9.9"], "'v9.9' is not a commit of "),
        (["--old=--all"], "'--all' is not a commit of "),
    ],
)
def test_wrong_ends_stop_git(place: Place, ends: list[str], message: str) -> None:
    place.range(100, 100, 80)
    place.history.git("tag", "v2.0", place.hashes[0])

    ended = place.at(1).run(*ends)

    assert (202, []) == (ended.exit_code, place.measured)
    assert message in ended.err
    assert 1 == len(ended.err.splitlines())


def test_given_end_outweighs_that_of_git(place: Place) -> None:
    """The middle of three levels is the old one of the upper two."""
    place.range(120, 100, 100, 80)

    assert 0 == place.at(2).run("--old", place.hashes[1]).exit_code
    assert place.hashes[0] not in place.measured


# ---- what is kept


def test_files_lie_in_git_s_own_folder(place: Place) -> None:
    place.range(100, 100, 80)
    place.at(1).run()

    assert "" == place.history.git("status", "--short")
    [kept] = (place.own / "archives" / JOB).iterdir()
    assert {"asked.json", *place.hashes} == {each.name for each in kept.iterdir() if each.name[0] != "."}
    assert (kept / place.hashes[1] / "1" / "measured.json").is_file()
    assert "command" in json.loads((kept / "asked.json").read_text())["profile"]
    assert 3 == len(list((place.own / "builds" / "kept").glob("*/")))


def test_folders_that_are_set_are_used(place: Place, bench: Any) -> None:
    place.range(100, 100, 80)
    settings = bench.folder / "settings.yaml"
    settings.write_text(f"{SETTINGS}archive: {bench.folder}/mine\n")

    place.at(1).run()

    assert (bench.folder / "mine" / JOB).is_dir()
    assert not (place.own / "archives").exists()


def test_ends_are_measured_for_all_commits_together(place: Place) -> None:
    place.range(100, 100, 100, 80, 80, 80)
    ends = {place.hashes[0], place.hashes[-1]}
    place.at(1).run()
    first = len([each for each in place.measured if each in ends])
    place.measured.clear()

    for number in (2, 3, 4):
        place.at(number).run()
        assert first > len([each for each in place.measured if each in ends])
        place.measured.clear()


def test_commit_that_was_judged_is_not_measured_again(place: Place) -> None:
    place.range(100, 100, 80)
    first = place.at(1).run()
    place.measured.clear()

    again = place.run()

    assert ([], first.out.splitlines()[-1]) == (place.measured, again.out.splitlines()[-1])


@pytest.mark.parametrize(
    "change", [("--trial-duration", "2"), ("--device-option", "acl_rules=5"), ("--better", "lower")]
)
def test_what_was_measured_otherwise_does_not_count(place: Place, change: tuple[str, str]) -> None:
    place.range(100, 100, 80)
    place.at(1).run()
    place.measured.clear()

    place.run(*change)

    assert set(place.hashes) == set(place.measured)


def test_what_another_command_measured_does_not_count(place: Place, bench: Any) -> None:
    place.range(100, 100, 80)
    place.at(1).run()
    place.measured.clear()
    settings = bench.folder / "settings.yaml"
    settings.write_text(SETTINGS.replace("measure.sh", "./measure.sh"))

    place.run()

    assert set(place.hashes) == set(place.measured)


def test_after_a_kill_nothing_is_measured_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, thorough: bool
) -> None:
    """It dies before each measurement but the first one or two of a start."""
    place.range(100, 100, 80)
    usual, starts = Builds.measure, 0

    def deadly(self: Builds, built: Any, number: int) -> BuildMeasurement:
        if len(place.measured) == (1 if thorough else 2):
            raise KeyboardInterrupt
        return usual(self, built, number)

    seen: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", deadly)
        while (ended := place.at(1).run()).exit_code == 130:
            starts += 1
            place.measured.clear()
            kept = sorted((place.own / "archives").rglob("measured.json"))
            assert set(seen) < set(kept)
            seen = kept

    assert (0, True) == (ended.exit_code, starts > 1)


def test_result_that_cannot_be_trusted_is_measured_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.range(100, 100, 80)
    usual = Builds.measure

    def disturbed(self: Builds, built: Any, number: int) -> BuildMeasurement:
        first = built.commit not in place.measured
        measured = usual(self, built, number)
        failed = {"command": f"{NOT_VALID}the generator was slow"}
        return replace(measured, values={}, failed=failed) if first else measured

    monkeypatch.setattr(Builds, "measure", disturbed)

    first, again = place.at(1).run(), place.run()

    assert [0, 0] == [first.exit_code, again.exit_code]
    assert "1 of the tests cannot be trusted (command: " in first.out


# ---- codes that stop git


@pytest.mark.parametrize(
    ("error", "code"),
    [(TestbedError("no carrier"), 204), (OSError(28, "full"), 203), (KeyboardInterrupt(), 130)],
)
def test_failure_stops_git(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    place.range(100, 100, 80)

    def failing(*_: object) -> Iterator[None]:
        raise error

    monkeypatch.setattr(single_step_runner, "judge_commit", failing)

    ended = place.at(1).run()

    assert code == ended.exit_code
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--measurements 0", "0 is less than 1; see ./run bisectrun --help"),
        ("--confidence 2", "bisect.confidence is 2.0"),
        ("--old HEAD~9", "'HEAD~9' is not a commit of "),
        ("--old deadbeef", "deadbeef does not exist in the repository"),
        ("--old {2}", "both ends are the commit "),
        ("--profile none", "profile 'none' is unknown"),
        ("--testbed none", "none"),
        ("--repository x", "unrecognized arguments"),
    ],
)
def test_bad_use_stops_git(place: Place, arguments: str, message: str) -> None:
    place.range(100, 100, 80)

    ended = place.at(1).run(*arguments.format(*place.hashes).split())

    assert 202 == ended.exit_code
    assert message in ended.err
    assert 1 == len(ended.err.splitlines())


def test_bisection_without_a_good_commit_stops_git(place: Place) -> None:
    place.range(100, 100, 80)
    place.history.git("bisect", "reset")
    place.history.git("bisect", "start")
    place.history.git("bisect", "bad", place.hashes[2])

    ended = place.at(1).run()

    assert (202, True) == (ended.exit_code, "no old end is known; give git one good" in ended.err)


def test_folder_without_a_checkout_stops_git(
    place: Place, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(bench.folder)

    ended = place.run()

    assert (202, True) == (ended.exit_code, "is not a checkout of a git repository" in ended.err)


@pytest.mark.parametrize("program", [["jobs.bisectrun"], ["perftrend.cli", "bisectrun"]])
@pytest.mark.parametrize(
    ("defect", "named"),
    [
        ("from perftrend.settings import Settings; Settings.load = lambda *_, **__: 1 / 0", "ZeroDivision"),
        ("import sys; sys.modules['perftrend.cli.options'] = None", "perftrend.cli.options"),
    ],
)
def test_defect_stops_git(tmp_path: Path, program: Sequence[str], defect: str, named: str) -> None:
    """Python itself would end with 1, which git takes for bad."""
    root = Path(__file__).resolve().parents[3]
    (tmp_path / "sitecustomize.py").write_text(defect)

    ended = subprocess.run(
        [sys.executable, "-m", *program],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{root}:{root / 'resources'}"},
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (201, True) == (ended.returncode, named in ended.stderr), ended.stderr


def test_no_code_of_an_error_is_a_verdict_for_git() -> None:
    codes = {value for name, value in vars(errors).items() if name.startswith("EXIT_") and value}

    assert all(128 <= bisectrun.stop_code(code) <= 255 for code in codes)


def test_help_tells_the_codes(place: Place) -> None:
    ended = place.run("--help")

    assert 0 == ended.exit_code
    assert all(str(code) in ended.out for code in (0, 1, 125, 130, 200, 201, 202, 203, 204))
