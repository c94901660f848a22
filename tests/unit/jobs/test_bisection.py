"""A bisection from its command line to its exit code: a product with a command, Gerrit's double."""

from __future__ import annotations

import base64
import errno
import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from jobs import _answering as answering
from jobs import bisection
from perftrend.bisect import Session
from perftrend.bisect.journal import Journal
from perftrend.builds import Builds
from perftrend.clients.git.locking import held
from perftrend.errors import TestbedError
from perftrend.model import Measured
from perftrend.perftest import NOT_VALID
from perftrend.settings import Settings
from tests.doubles import gerrit
from tests.doubles.gerrit import GerritDouble
from tests.products.histories import History
from tests.unit.report.bisection import reports

BENCH = """import pathlib, random, sys
level = pathlib.Path("level").read_text()
if level == "fails":
    sys.exit("no route to host")
random.seed(pathlib.Path("number").read_text())
print(*(random.gauss(float(level), float(level) * 0.002) for _ in range(3)), sep="\\n")
"""
SETTINGS = """
project:
  profile: command
  repository: {repository}
  parameters: {{build: sh build.sh, measure: '{{python}} bench.py', unit: ops}}
gerrit: {{attempts: 1}}
"""
WORKS, BREAKS = "exit 0\n", "echo compiling router.c; echo 'router.c:4: error' >&2; exit 2\n"
JOB = "perftrend-bisect-simulated"
BEGUN = "Looking for the commit that changed the performance: "


class Product:
    """A product whose command prints numbers around a level, always the same ones for a commit."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.hashes: list[str] = []

    def commit(self, level: float | str, build: str = WORKS) -> str:
        number = len(self.hashes)
        files = {"bench.py": BENCH, "level": f"{level}", "number": f"{number}", "build.sh": build}
        self.hashes.append(self.history.commit(f"Commit {number}", files))
        return self.hashes[-1]

    def range(self, *levels: float | str, broken: tuple[int, ...] = ()) -> list[str]:
        """Add a commit for each level; those that are broken do not build."""
        for place, level in enumerate(levels):
            self.commit(level, BREAKS if place in broken else WORKS)
        return self.hashes


@dataclass
class Place:
    """A folder to work in, with a product of its own, and what was done there."""

    bench: Any
    product: Product
    measured: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)

    def run(self, *arguments: str) -> Any:
        given = ["--settings", "settings.yaml", "--testbed", "simulated", *arguments]
        return self.bench._job(bisection.main, given)

    def search(self, *arguments: str) -> Any:
        hashes = self.product.hashes
        return self.run("--old", hashes[0], "--new", hashes[-1], *arguments)

    @property
    def archive(self) -> Path:
        return self.bench.archives / JOB  # type: ignore[no-any-return]

    @property
    def sessions(self) -> list[Path]:
        """The sessions that have not ended."""
        return sorted((self.bench.folder / "bisections").glob("*"))

    def report(self) -> Any:
        return json.loads((self.bench.folder / "report" / "bisection.json").read_text())

    def culprits(self) -> list[list[int]]:
        """Return what was found, by the numbers of the commits."""
        return [
            [self.product.hashes.index(each) for each in culprit["commits"]]
            for culprit in self.report()["culprits"]
        ]


@pytest.fixture
def place(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Place:
    settings = SETTINGS.format(repository=bench.folder / "product")
    (bench.folder / "settings.yaml").write_text(settings)
    found = Place(bench, Product(bench.folder / "product"))
    for name, done in (("measure", found.measured), ("_make", found.built)):
        _noted(monkeypatch, name, done)
    return found


def _noted(monkeypatch: pytest.MonkeyPatch, name: str, done: list[str]) -> None:
    usual = getattr(Builds, name)

    def noting(self: Builds, what: Any) -> Any:
        done.append(getattr(what, "commit", what))
        return usual(self, what)

    monkeypatch.setattr(Builds, name, noting)


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def stopped_after(
    place: Place,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | type[BaseException] = KeyboardInterrupt,
    search: Callable[[], Any] | None = None,
) -> None:
    """Search until so many measurements are made."""
    usual = Builds.measure

    def measure(self: Builds, built: Any) -> Measured:
        if len(place.measured) == count:
            raise error
        return usual(self, built)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", measure)
        (search or place.search)()


# ---- what is found


def test_commit_that_made_it_slower_is_named(place: Place) -> None:
    place.product.range(*[100] * 5, *[90] * 4)

    ended = place.search()

    assert 1 == ended.exit_code, ended.err
    assert [[5]] == place.culprits()
    guilty = place.product.hashes[5][:12]
    verdict = ended.out.splitlines()[-1]
    assert verdict.startswith(f'perftrend verdict: {guilty} "Commit 5" made the only test slower by ')
    assert "Test result classification: regression" in ended.out


@pytest.mark.parametrize("strategy", ["adaptive", "documented"])
def test_both_strategies_find_it(place: Place, strategy: str) -> None:
    place.product.range(*[1e7] * 3, *[8e6] * 6)

    assert 1 == place.search("--strategy", strategy).exit_code
    assert ([[3]], strategy) == (place.culprits(), place.report()["strategy"])


def test_commit_that_made_it_faster_is_named_and_fails_nothing(place: Place) -> None:
    place.product.range(100, 100, 100, 120, 120)

    assert 0 == place.search().exit_code
    assert [[3]] == place.culprits()


def test_range_without_a_change_is_told_with_what_would_have_shown(place: Place) -> None:
    place.product.range(*[100] * 6)

    ended = place.search()

    assert 0 == ended.exit_code
    assert "No difference shown between " in ended.out.splitlines()[-1]
    assert 0 < place.report()["smallest_visible"]["command"] < 0.05
    assert {place.product.hashes[0], place.product.hashes[-1]} == set(place.measured)


def test_range_of_one_commit_is_no_special_case(place: Place) -> None:
    place.product.range(100, 90)

    ended = place.search()

    assert (1, [[1]]) == (ended.exit_code, place.culprits())


def test_commits_that_do_not_build_are_gone_around(place: Place) -> None:
    place.product.range(100, 100, 100, 90, 90, 90, 90, broken=(4,))

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())


def test_smallest_set_is_named_where_broken_commits_hide_it(place: Place) -> None:
    place.product.range(100, 100, 100, 100, 90, 90, broken=(2, 3))

    ended = place.search()

    assert (1, [[2, 3, 4]]) == (ended.exit_code, place.culprits())
    assert "which one cannot be told, because not all of them build." in ended.out
    logs = sorted(place.archive.glob("1/*.build.log"))
    assert logs
    assert "router.c:4: error" in logs[0].read_text()


def test_all_commits_between_may_be_broken(place: Place) -> None:
    place.product.range(100, 100, 100, 100, 90, broken=(1, 2, 3))

    assert 1 == place.search().exit_code
    assert [[1, 2, 3, 4]] == place.culprits()


@pytest.mark.parametrize(("end", "which"), [(0, "old"), (3, "new")])
def test_end_that_does_not_build_is_bad_input(place: Place, end: int, which: str) -> None:
    place.product.range(100, 100, 90, 90, broken=(end,))

    ended = place.search()

    assert 2 == ended.exit_code
    assert f"perftrend verdict: The {which} commit " in ended.out
    assert "router.c:4: error" in (place.bench.folder / "report" / "message.txt").read_text()
    assert 0 == place.measured.count(place.product.hashes[end])


def test_test_that_fails_from_a_commit_on_is_a_change_too(place: Place) -> None:
    place.product.range(100, 100, 100, "fails", "fails")

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())
    assert "made the only test fail" in ended.out


NAMED = """import pathlib, sys
level, *tests = pathlib.Path("level").read_text().split()
if level == "fails":
    sys.exit("no route to host")
for test in tests:
    print(*(f"{test} {float(level) * (1 + noise / 1000)}" for noise in (0, 1, -1)), sep="\\n")
"""


def named(place: Place, *levels: str) -> list[str]:
    """Give the product a command that names its tests: of each commit the level, and its tests."""
    file = place.bench.folder / "settings.yaml"
    file.write_text(file.read_text().replace("unit: ops", "unit: ops, prints: named"))
    history = place.product.history
    for number, level in enumerate(levels):
        files = {"bench.py": NAMED, "level": level, "build.sh": WORKS, "number": f"{number}"}
        place.product.hashes.append(history.commit(f"Commit {number}", files))
    return place.product.hashes


@pytest.mark.parametrize(
    ("levels", "exit_code", "words"),
    [
        (("100 one two", "100 one two", "fails", "fails"), 1, "made 2 of 2 tests fail"),
        (("fails", "fails", "100 one two", "100 one two"), 0, "made 2 of 2 tests work"),
    ],
)
def test_command_that_fails_as_a_whole_is_a_failure_of_each_test(
    place: Place, levels: tuple[str, ...], exit_code: int, words: str
) -> None:
    named(place, *levels)

    ended = place.search()

    assert (exit_code, [[2]]) == (ended.exit_code, place.culprits())
    assert words in ended.out
    assert "one failed in " in ended.out
    assert "no route to host" not in ended.out, "the log has what the program said"


def test_test_that_vanishes_is_told_and_the_others_are_compared(place: Place) -> None:
    named(place, "100 one two", "100 one two", "90 one", "90 one")

    ended = place.search()

    assert (1, [[2]]) == (ended.exit_code, place.culprits())
    assert "two has no result in " in ended.out


@pytest.mark.parametrize("strategy", ["adaptive", "documented"])
def test_ends_without_a_test_in_common_are_not_said_to_be_the_same(place: Place, strategy: str) -> None:
    named(place, "100 one", "100 one", "100 two")

    ended = place.search("--strategy", strategy)

    assert 0 == ended.exit_code
    assert "Undecided, because no test was measured at both ends of the range." in ended.out.splitlines()[-1]


def test_product_that_cannot_be_measured_at_all_fails_the_job(place: Place) -> None:
    place.product.range("fails", "fails", "fails")

    ended = place.search()

    assert 4 == ended.exit_code
    assert "Undecided, because no test has a value at either end of the range." in ended.out.splitlines()[-1]
    assert "command failed in " in ended.out


def test_what_is_not_committed_does_not_count(place: Place) -> None:
    place.product.range(100, 100, 90, 90)
    (place.product.history.folder / "level").write_text("1")

    assert (1, [[2]]) == (place.search().exit_code, place.culprits())
    assert "1" == (place.product.history.folder / "level").read_text()


def test_branch_of_a_merge_is_looked_into_unless_it_is_not_to_be(place: Place) -> None:
    product = place.product
    product.range(100, 100)
    product.history.git("checkout", "--quiet", "-b", "side")
    product.range(100, 85, 85)
    guilty = product.hashes[3]
    product.history.git("checkout", "--quiet", "main")
    product.history.commit("Meanwhile", {"README": "more\n"})
    product.hashes.append(product.history.merge("side", "Merge the side"))
    merge = product.hashes[-1]
    product.range(85, 85)

    assert 1 == place.search().exit_code
    assert [guilty] == place.report()["culprits"][0]["commits"]

    assert 1 == place.search("--first-parent").exit_code
    assert [merge] == place.report()["culprits"][0]["commits"]


def test_regression_may_make_the_job_unstable(place: Place) -> None:
    place.product.range(100, 100, 80)
    settings = place.bench.folder / "settings.yaml"
    settings.write_text(settings.read_text() + "analysis: {regression: unstable}\n")

    assert 5 == place.search().exit_code


# ---- what cannot be trusted


def disturbed(monkeypatch: pytest.MonkeyPatch, is_disturbed: Callable[[list[str], str], bool]) -> None:
    """Let a measurement's result be one that cannot be trusted, by those before it and its commit."""
    usual, before = Builds.measure, []  # type: ignore[var-annotated]

    def measure(self: Builds, built: Any) -> Measured:
        measured = usual(self, built)
        bad = is_disturbed(before, built.commit)
        before.append(built.commit)
        return (
            replace(measured, values={}, failed={"command": f"{NOT_VALID}the generator was slow"})
            if bad
            else measured
        )

    monkeypatch.setattr(Builds, "measure", measure)


def test_result_that_cannot_be_trusted_is_measured_again_and_no_failure(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 100, 90, 90)
    disturbed(monkeypatch, lambda before, commit: before.count(commit) == 0)

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())
    assert "1 of the tests cannot be trusted (command: " in ended.out
    assert all(each["tests"] and not each["failed"] for each in place.report()["measurements"])
    told = [each["archive"] for each in place.report()["measurements"]]
    assert "1/parent/2" == told[0]
    assert len(told) == len(set(told))


def test_testbed_that_cannot_be_trusted_ends_it_and_it_can_go_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 100, 90, 90)
    middle = place.product.hashes[2]
    with monkeypatch.context() as patch:
        disturbed(patch, lambda _, commit: commit == middle)
        ended = place.search()

    assert 4 == ended.exit_code
    assert f"{middle[:12]} gave nothing that can be trusted, 3 times (command: " in ended.err
    assert (1, [[3]]) == (place.search().exit_code, place.culprits())


# ---- what is told and kept


def test_archive_has_the_documented_folders_the_session_and_the_report(place: Place) -> None:
    place.product.range(100, 100, 100, 90, 90)
    place.search()

    build = place.archive / "1"
    assert {"parent", "current", "parent1", "parent2", "report"} == {
        each.name for each in build.iterdir() if each.is_dir()
    }
    assert (build / "parent" / "1" / "measured.json").is_file()
    assert (build / "report" / "bisection.json").is_file()
    assert [] == place.sessions
    told = [each["archive"] for each in place.report()["measurements"]]
    assert all((place.archive / each / "measured.json").is_file() for each in told)
    records = [json.loads(line) for line in (build / "session.jsonl").read_text().splitlines()]
    assert ("range", "ended") == (records[0]["record"], records[-1]["record"])


def test_who_asks_the_same_again_gets_it_measured_anew(place: Place) -> None:
    place.product.range(100, 100, 90)
    place.search()
    once = len(place.measured)

    assert 1 == place.search().exit_code
    assert 2 * once == len(place.measured)
    assert {"1", "2"} == {each.name for each in place.archive.iterdir()}
    assert 3 == len(place.built), "what was built is kept"


def test_command_to_repeat_it_says_everything(place: Place) -> None:
    place.product.range(100, 100, 90)
    place.search("--first-parent", "--trial-duration", "2")
    command = place.report()["command"]

    old, _, new = place.product.hashes
    assert command.startswith(
        f"./run bisection --settings settings.yaml --testbed simulated --old {old} --new {new}"
    )
    assert command.endswith("--trial-duration 2.0 --first-parent")


def test_password_of_the_repository_is_not_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(100, 100, 90)
    folder = place.bench.folder / "product"
    url = f"file://ada:secret@{folder}"
    monkeypatch.setattr(
        bisection.builds,
        "opened",
        lambda project, log, usual=bisection.builds.opened: usual(
            project.model_copy(update={"repository": str(folder)}), log=log
        ),
    )

    ended = place.search("--repository", url)

    told = [each.read_text() for each in place.bench.folder.rglob("report/*")]
    assert 1 == ended.exit_code, ended.err
    assert "secret" not in "".join([ended.out, ended.err, *told])


def test_dry_run_measures_nothing(place: Place) -> None:
    place.product.range(100, 100, 90)

    ended = place.search("--dry-run")

    assert 0 == ended.exit_code
    told = "Would search 2 commits, the command of the product's profile. Nothing was measured."
    assert f"perftrend verdict: {told}" == ended.out.splitlines()[-1]
    assert [] == place.measured == place.sessions


# ---- killed, and gone on with


class Killed(BaseException):
    """What a kill looks like from inside."""


def test_killed_at_any_point_it_goes_on_and_does_nothing_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start dies at the next record that it writes, before or after it is on the disk."""
    place.product.range(*[100] * 9, *[90] * 9, broken=(7,))
    undisturbed = place.search()
    expected, steps = place.culprits(), list(place.measured)
    place.measured.clear()
    place.built.clear()
    (place.bench.folder / "builds").rename(place.bench.folder / "others")

    deaths = Deaths()
    monkeypatch.setattr(Journal, "append", deaths.deadly(Journal.append))
    starts = 0
    while True:
        starts += 1
        deaths.left, deaths.before = 1 + starts % 3, bool(starts % 2)
        try:
            ended = place.search()
        except Killed:
            continue
        break

    assert starts > 5
    assert undisturbed.out.splitlines()[-1] == ended.out.splitlines()[-1]
    assert expected == place.culprits()
    assert steps == place.measured
    assert len(set(place.built)) == len([each for each in place.built if each != place.product.hashes[7]])
    assert {"1", "2"} == {each.name for each in place.archive.iterdir()}


@dataclass
class Deaths:
    """Kills who adds a record."""

    left: int = 0
    """After so many more."""
    before: bool = False
    """Whether the last one is not written any more."""

    def deadly(
        self, usual: Callable[[Any, Mapping[str, Any]], None]
    ) -> Callable[[Any, Mapping[str, Any]], None]:
        def append(journal: Journal, record: Mapping[str, Any]) -> None:
            self.left -= 1
            if self.left or not self.before:
                usual(journal, record)
            if not self.left:
                raise Killed

        return append


def test_interrupted_it_says_what_is_known_and_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(*[100] * 9, *[90] * 9)
    usual = Builds.measure

    def interrupted(self: Builds, built: Any) -> Measured:
        if len(place.measured) == 4:
            raise KeyboardInterrupt
        return usual(self, built)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", interrupted)
        stopped = place.search()
    assert 130 == stopped.exit_code
    verdict = stopped.out.splitlines()[-1]
    assert "Undecided, because it was interrupted, and goes on where it stopped when the same" in verdict
    assert "most suspect, with " in verdict
    assert 1 == len([each for each in place.sessions if each.suffix == ".jsonl"])

    ended = place.search()

    assert (1, [[9]]) == (ended.exit_code, place.culprits())
    assert ["1"] == [each.name for each in place.archive.iterdir()]
    assert len(place.report()["measurements"]) == len(place.measured)


def test_interrupted_before_the_first_measurement_it_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90)

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "run", interrupted)

    ended = place.search()

    assert 130 == ended.exit_code
    assert "perftrend verdict: Undecided, because it was interrupted" in ended.out


def test_full_disk_ends_it_in_one_line_and_it_goes_on(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(*[100] * 5, *[90] * 5)
    with monkeypatch.context() as patch:
        usual = Journal.append

        def append(journal: Journal, record: Mapping[str, Any]) -> None:
            if len(place.measured) == 5:
                raise OSError(errno.ENOSPC, "No space left on device", "session.jsonl")
            usual(journal, record)

        patch.setattr(Journal, "append", append)
        ended = place.search()
    assert 3 == ended.exit_code
    assert "session.jsonl: No space left on device; free some space" in ended.err.splitlines()[-1]

    assert (1, [[5]]) == (place.search().exit_code, place.culprits())
    assert len(place.report()["measurements"]) == len(place.measured)


def test_session_whose_first_record_is_torn_begins_anew(place: Place) -> None:
    place.product.range(100, 100, 90)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Builds, "measure", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        place.search()
    [session] = [each for each in place.sessions if each.suffix == ".jsonl"]
    session.write_text('{"record":"ra')

    assert 1 == place.search().exit_code


def test_build_of_jenkins_goes_on_with_the_session_of_another(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90, 90)
    usual = Builds.measure

    def killed(self: Builds, built: Any) -> Measured:
        if len(place.measured) == 3:
            raise KeyboardInterrupt
        return usual(self, built)

    monkeypatch.setenv("BUILD_NUMBER", "41")
    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", killed)
        place.search()
    monkeypatch.setenv("BUILD_NUMBER", "42")

    assert 1 == place.search().exit_code
    folders = {each["archive"].split("/")[0] for each in place.report()["measurements"]}
    assert {"41", "42"} == folders
    assert len(place.report()["measurements"]) == len(place.measured)


def test_what_the_nights_add_to_the_store_does_not_end_a_session(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.product.range(100, 100, 90)
    with monkeypatch.context() as patch:
        patch.setattr("jobs._question.known_deviations", lambda *_: {"command": 0.5})
        patch.setattr(Builds, "measure", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        place.search()
    monkeypatch.setattr("jobs._question.known_deviations", lambda *_: {"command": 0.6})

    assert 1 == place.search().exit_code


def test_two_do_not_answer_the_same_question_at_once(place: Place) -> None:
    place.product.range(100, 100, 90)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Builds, "measure", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        place.search()
    [session] = [each for each in place.sessions if each.suffix == ".jsonl"]

    with held(session.with_suffix(".lock")):
        ended = place.search()

    assert 2 == ended.exit_code
    assert "another process answers the same question; wait until it has ended" in ended.err


def test_build_of_another_question_is_refused(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.range(100, 100, 90)
    monkeypatch.setenv("BUILD_NUMBER", "7")
    place.search()

    ended = place.run("--old", place.product.hashes[1], "--new", place.product.hashes[2])

    assert 2 == ended.exit_code
    assert "holds the answer to another question" in ended.err


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("gerrit:", "bisect: {maximum_changes: 1}\ngerrit:"),
        ("gerrit:", "bisect: {inside: true}\ngerrit:"),
        ("{python} bench.py", "{python} -B bench.py"),
    ],
)
def test_other_limits_and_commands_are_another_question(
    place: Place, asked: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who changes them while a session is unfinished gets a new one, and the old one goes on later."""
    place.product.range(*[100] * 5, *[90] * 5)
    file = place.bench.folder / "settings.yaml"
    usual = file.read_text()
    stopped_after(place, 3, monkeypatch)
    unfinished = [each.read_text() for each in place.sessions]
    file.write_text(usual.replace(asked, other))

    assert (1, [[5]]) == (place.search().exit_code, place.culprits())
    assert unfinished == [each.read_text() for each in place.sessions]

    file.write_text(usual)
    again = place.search()
    assert (1, [[5]]) == (again.exit_code, place.culprits())
    assert "going on after 3 measurements" in again.out


# ---- the example


def test_example_searches_commits_of_its_own(place: Place) -> None:
    ended = place.run("--example", "--dry-run", "--tags", "mrrAND64b")

    assert 0 == ended.exit_code, ended.err
    assert "Would search 32 commits, 4 tests on simulated, " in ended.out


def test_example_makes_its_own_choice_where_nothing_is_given(place: Place) -> None:
    """Whatever the settings are that were made for a product of one's own."""
    file = place.bench.folder / "settings.yaml"
    file.write_text(f"{file.read_text()}tags: [ndrpdr]\nbisect: {{old: abcdef1, change: 7}}\n")

    ended = place.run("--example", "--dry-run")

    assert "Would search 32 commits, 1 test on simulated, " in ended.out


@pytest.mark.parametrize(
    "other", ["--old=1234567", "--new=1234567", "--change=1", "--profile=vpp", "--repository=."]
)
def test_example_takes_nothing_that_says_what_is_searched(place: Place, other: str) -> None:
    ended = place.run("--example", other)

    assert 2 == ended.exit_code
    assert (
        f"perftrend: --example makes the commits that it searches; leave {other.partition('=')[0]} away\n"
        == ended.err
    )


def test_command_to_repeat_the_example_is_short() -> None:
    given = bisection.parser().parse_args(["--example", "--trial-duration", "2"])
    settings = Settings(testbed="1n-loopback", tags=("mrrAND64b",))

    assert "./run bisection --testbed 1n-loopback --trial-duration 2.0 --example" == answering.command(
        given, settings, reports.state(3, []).range
    )


# ---- a change in Gerrit


@dataclass
class Review:
    """A change of the double's, whose patch set is the newest commit of the product."""

    place: Place
    double: GerritDouble

    def push(self, *levels: float, broken: tuple[int, ...] = ()) -> None:
        product = self.place.product
        revision = product.range(*levels, broken=broken)[-1]
        product.history.git("update-ref", "refs/changes/01/1/1", revision)
        told = gerrit.change(1)
        told["revisions"] = {revision: told["revisions"][gerrit.REVISION]}
        self.double.files["/changes/1"] = {**told, "messages": self.double.messages}

    def search(self, *arguments: str) -> Any:
        return self.place.run("--old", self.place.product.hashes[0], "--change", "1", *arguments)

    @property
    def all_texts(self) -> list[str]:
        return [str(each["message"]) for each in self.double.posted]

    @property
    def texts(self) -> list[str]:
        """What was said, without that it began."""
        return [text for text in self.all_texts if not text.startswith(BEGUN)]


@pytest.fixture
def review(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[Review]:
    with gerrit.running() as double:
        for name, value in {"URL": double.url, "USER": "perftrend", "TOKEN": "secret"}.items():
            monkeypatch.setenv(f"PERFTREND_GERRIT_{name}", value)
        yield Review(place, double)


def commented(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("GERRIT_EVENT_COMMENT_TEXT", base64.b64encode(text.encode()).decode())
    monkeypatch.setenv("GERRIT_CHANGE_NUMBER", "1")
    monkeypatch.setenv("GERRIT_PATCHSET_NUMBER", "1")


def test_answer_is_posted_without_a_vote(review: Review) -> None:
    review.push(100, 100, 90, 90)

    ended = review.search()

    assert 1 == ended.exit_code, ended.err
    [_, posted] = review.double.posted
    assert '"Commit 2" made the only test slower by ' in posted["message"].splitlines()[0]
    assert "labels" not in posted
    assert f"autogenerated:perftrend:{JOB}" == posted["tag"]
    assert (1, 1) == (review.place.report()["change"], review.place.report()["patch_set"])


def test_comment_says_where_to_search_and_jenkins_where_the_report_is(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 100, 90, 90)
    commented(monkeypatch, f"Slower?\n\nbisecttest-simulated {review.place.product.hashes[1][:9]} mrr")
    monkeypatch.setenv("BUILD_NUMBER", "7")
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example/job/p/7/")

    ended = review.place.run()

    assert 1 == ended.exit_code, ended.err
    assert review.place.product.hashes[1] == review.place.report()["old"]
    assert "Whole report: https://jenkins.example/job/p/7/artifact/report/index.html" in review.texts[-1]
    assert ["7"] == [entry.name for entry in review.place.archive.iterdir()]


def test_option_outweighs_the_comment(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 100, 90, 90)
    hashes = review.place.product.hashes
    commented(monkeypatch, f"bisecttest-simulated {hashes[1]}")

    review.place.run("--old", hashes[0])

    assert hashes[0] == review.place.report()["old"]


def test_comment_may_ask_what_would_be_searched(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 90)
    commented(monkeypatch, f"bisecttest-simulated {review.place.product.hashes[0]} --dry-run")

    assert 0 == review.place.run().exit_code
    assert [
        "Would search 1 commit, the command of the product's profile. Nothing was measured."
    ] == review.texts
    assert [] == review.place.measured


def test_nothing_is_posted_where_that_is_not_wanted(review: Review) -> None:
    review.push(100, 90)

    assert 1 == review.search("--no-post").exit_code
    assert [] == review.texts


def test_end_that_does_not_build_is_posted_with_its_last_lines(review: Review) -> None:
    review.push(100, 100, 90, broken=(2,))

    assert 2 == review.search().exit_code
    [text] = review.texts
    assert text.startswith("The new commit ")
    assert "\n    router.c:4: error\n" in text


def test_error_is_posted(review: Review) -> None:
    review.push(100, 90)

    assert 2 == review.place.run("--old", "1234567", "--change", "1").exit_code
    [text] = review.texts
    assert "1234567 does not exist in the repository" in text


def test_interruption_is_posted_and_then_the_answer(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 100, 90)
    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        assert 130 == review.search().exit_code

    assert 1 == review.search().exit_code
    interrupted, answered = review.texts
    assert interrupted.startswith("Undecided, because it was interrupted")
    assert "made the only test slower" in answered


def test_beginning_is_posted_and_replaced_by_the_end(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_NUMBER", "7")
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example/job/p/7/")
    review.push(100, 100, 90, 90)

    review.search()

    begun, answered = review.double.posted
    assert (
        f"{BEGUN}3 commits, the command of the product's profile. https://jenkins.example/job/p/7/"
        == begun["message"]
    )
    assert begun["tag"] == answered["tag"]
    assert "labels" not in begun
    assert "This replaces my verdict of 2026-03-02 18:00:00 UTC" in answered["message"].splitlines()[-1]


def test_who_goes_on_says_after_how_much(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(*[100] * 5, *[90] * 5)
    stopped_after(review.place, 4, monkeypatch, search=review.search)

    review.search()

    begun = [text for text in review.all_texts if text.startswith(BEGUN)]
    assert ["9 commits, the command of the product's profile.", ", going on after 4 measurements."] == [
        begun[0].removeprefix(BEGUN), begun[1].splitlines()[0].partition("profile")[2],
    ]  # fmt: skip


def test_failure_half_way_is_posted_with_what_is_known(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(*[100] * 5, *[90] * 5)
    error = TestbedError("no carrier; plug it in")
    stopped_after(review.place, 4, monkeypatch, error, review.search)

    [text] = review.texts
    assert text.startswith(
        "Undecided, because it could not go on: no carrier; plug it in; most suspect, with "
    )
    assert "What was measured, oldest first:" in text


def test_interruption_before_the_search_is_posted(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 100, 90)
    monkeypatch.setattr(bisection.choosing, "chosen", raising(KeyboardInterrupt))

    assert 130 == review.search().exit_code
    assert ["Interrupted before it came to an end."] == review.all_texts


def test_answer_is_posted_although_the_disk_is_full_and_nothing_is_said_after_it(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 100, 90)
    full = OSError(errno.ENOSPC, "No space left on device", "report")
    with monkeypatch.context() as patch:
        patch.setattr("jobs._answering.report.write", raising(full))
        ended = review.search()

    assert 3 == ended.exit_code
    assert "perftrend: report: No space left on device; free some space" in ended.err
    [text] = review.texts
    assert "made the only test slower" in text
    measured = len(review.place.measured)
    assert 1 == review.search().exit_code
    assert measured == len(review.place.measured)


def test_second_abort_does_not_end_what_is_said_last(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 100, 90)
    usual = gerrit.Handler.tell

    def aborting(self: Any, path: str, body: Any) -> None:
        if path.endswith("/review") and not str(body["message"]).startswith(BEGUN):
            os.kill(os.getpid(), signal.SIGTERM)
        usual(self, path, body)

    monkeypatch.setattr(gerrit.Handler, "tell", aborting)

    assert 1 == review.search().exit_code
    assert 1 == len(review.texts)


# ---- the change that is guilty


def guilty(review: Review, number: int, revision: str) -> dict[str, Any]:
    """Return what the double tells of the change of a commit."""
    told = gerrit.change(number)
    told["revisions"] = {revision: {**told["revisions"][gerrit.REVISION], "_number": 2}}
    review.double.files[f"/changes/{number}"] = {**told, "messages": []}
    return told


def accusations(review: Review) -> list[tuple[str, str]]:
    """Return where something was said under another change, and what."""
    return [
        (each.path.removeprefix("/a"), each.body["message"])
        for each in review.double.requests
        if each.method == "POST" and "/changes/1/" not in each.path
    ]


def test_guilty_change_is_told_where_that_is_wanted(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_TELL_CULPRIT", "true")
    review.push(100, 100, 90, 90)
    commit = review.place.product.hashes[2]
    review.double.pages = [[guilty(review, 5, commit)]]

    assert 1 == review.search().exit_code

    [(path, text)] = accusations(review)
    assert "/changes/5/revisions/2/review" == path
    assert text.startswith(
        f"This change, as commit {commit[:12]}, made the only test slower by 10 %, with a "
    )
    assert f"Asked on {review.double.url}/c/router/+/1" in text
    asked = [each.query["q"][0] for each in review.double.requests if each.path.endswith("/changes/")]
    assert [f'commit:"{commit}" project:"router"'] == asked
    assert all("labels" not in each for each in review.double.posted)


@pytest.mark.parametrize(
    ("wanted", "levels", "number"),
    [("false", (100, 100, 90, 90), 5), ("true", (100, 100, 120, 120), 5), ("true", (100, 100, 90), 1)],
    ids=["not wanted", "faster", "asked on it"],
)
def test_nobody_else_is_told_who_need_not_know(
    review: Review, wanted: str, levels: tuple[float, ...], number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_TELL_CULPRIT", wanted)
    review.push(*levels)
    if number != 1:
        guilty(review, number, review.place.product.hashes[2])
    review.double.pages = [[dict(review.double.files[f"/changes/{number}"])]]

    review.search()

    assert [] == accusations(review)
    assert 2 == len(review.all_texts)


def test_guilty_commit_without_a_change_fails_nothing(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_TELL_CULPRIT", "true")
    review.push(100, 100, 90, 90)
    review.double.pages = [[]]

    ended = review.search()

    assert (1, []) == (ended.exit_code, accusations(review))
    assert f"no change in Gerrit is known of {review.place.product.hashes[2][:12]}" in ended.err


def test_answer_that_could_not_be_posted_is_posted_by_asking_again(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 100, 110)
    usual = gerrit.Handler.tell

    def refuse(self: Any, path: str, body: Any) -> None:
        self.send(500, b"no") if path.endswith("/review") else usual(self, path, body)

    with monkeypatch.context() as patch:
        patch.setattr(gerrit.Handler, "tell", refuse)
        refused = review.search()
    measured = len(review.place.measured)

    again = review.search()

    assert (3, 0) == (refused.exit_code, again.exit_code)
    assert "made the only test faster" in refused.out.splitlines()[-1]
    assert "made the only test faster" in review.texts[-1]
    assert measured == len(review.place.measured)


def test_patch_set_that_was_pushed_meanwhile_is_not_searched(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ref of the patch set holds another commit than Gerrit told of."""
    review.push(100, 90)
    review.place.product.history.git("update-ref", "refs/changes/01/1/1", review.place.product.hashes[0])

    ended = review.search()

    assert 3 == ended.exit_code
    assert "is project.repository that of the change?" in ended.err
    assert [] == review.place.measured


# ---- what cannot be


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--new {1}", "say where to search: --old HASH with --new HASH, or with --change N"),
        ("--old {0}", "say where to search"),
        ("--old {0} --new {1} --change 3", "say where to search"),
        ("--old {0} --change 3", "gerrit.url is not set"),
        ("--old deadbeef --new {1}", "deadbeef does not exist in the repository"),
        ("--old HEAD --new {1}", "'HEAD' is no hash of a commit"),
        ("--old {1} --new {1}", "old and new are the same commit"),
        ("--old {1} --new {0}", "is no ancestor of"),
        ("--old {0} --new {1} --repository shallow", "has only the newest part of its history"),
        ("--old {0} --new {1} --profile none", "none"),
        ("--old {0} --new {1} --repository nowhere", "cannot fetch from"),
        ("--old {0} --new {1} --confidence 2", "bisect.confidence is 2.0"),
        ("--old {0} --new {1} --measurements 0", "0 is not from 1 on"),
        ("--old {0} --new {1} --strategy guess", "invalid choice: 'guess'"),
    ],
)
def test_bad_input_is_told_in_one_line(place: Place, arguments: str, message: str) -> None:
    place.product.range(100, 100, 90)
    folder = place.bench.folder
    place.product.history.git(
        "clone", "--quiet", "--depth=1", f"file://{folder / 'product'}", f"{folder / 'shallow'}"
    )
    words = arguments.format(*place.product.hashes).split()

    ended = place.run(*words)

    assert ended.exit_code in {2, 3}
    assert message in ended.err
    assert 1 == len(ended.err.splitlines())
    assert [] == place.measured


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        ("slower", 1),
        ("hidden", 1),
        ("failing", 1),
        ("nothing", 0),
        ("undecided", 0),
        ("not built", 2),
    ],
)
def test_only_a_regression_that_was_found_fails_the_job(kind: str, exit_code: int) -> None:
    assert exit_code == bisection.exit_code(reports.KINDS[kind])
