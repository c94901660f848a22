"""A per-patch test from its command line to its exit code: a product with a command, Gerrit's double."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds import Builds
from perftrend.cli import perftest
from perftrend.clients.gerrit import reviews
from perftrend.model import NOT_VALID, BuildMeasurement
from perftrend.store import Store
from tests.doubles import gerrit
from tests.doubles.gerrit import GerritDouble
from tests.products.histories import History
from tests.products.printed import FAILING, SCRIPT, scattered
from tests.unit.cli.conftest import commented

SETTINGS = """
project:
  profile: command
  repository: {repository}
  parameters: {{build: sh build.sh, measure: sh measure.sh, unit: ops}}
perftest: {{maximum_rounds: 6}}
gerrit: {{attempts: 1}}
"""
WORKS, BREAKS = "exit 0\n", "echo compiling router.c; echo 'router.c:4: error' >&2; exit 2\n"


class Product:
    """A product whose command prints numbers around a level."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)

    def commit(self, level: float | None, build: str = WORKS) -> str:
        script = FAILING if level is None else scattered(level, seed=f"{level}", spread=0.001, count=5)
        files = {SCRIPT: script, "build.sh": build}
        return self.history.commit(f"Level {level}", files)


@dataclass
class Place:
    """A folder to work in, with a product of its own."""

    bench: Any
    product: Product

    def run(self, *arguments: str) -> Any:
        return self.bench._job(perftest.main, ["--settings", "settings.yaml", *arguments])

    @property
    def archive(self) -> Path:
        """The folder of the only job: of the profile, or of the testbed that a comment names."""
        usual = self.bench.archives / "perftrend-perftest-command"
        return next(self.bench.archives.glob("perftrend-perftest-*"), usual)  # type: ignore[no-any-return]

    @property
    def store(self) -> Path:
        return self.bench.folder / "perftrend.sqlite"  # type: ignore[no-any-return]  # the bench has no types

    def report(self) -> Any:
        return json.loads((self.bench.folder / "report" / "perftest.json").read_text())


@pytest.fixture
def place(bench: Any) -> Place:
    product = Product(bench.folder / "product")
    settings = SETTINGS.format(repository=bench.folder / "product")
    (bench.folder / "settings.yaml").write_text(settings)
    return Place(bench, product)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the commits that were measured, as they are."""
    found: list[str] = []
    usual = Builds.measure

    def noted(self: Builds, built: Any, number: int) -> BuildMeasurement:
        found.append(built.commit)
        return usual(self, built, number)

    monkeypatch.setattr(Builds, "measure", noted)
    return found


# ---- two commits, without Gerrit


def test_slower_commit_is_a_regression(place: Place) -> None:
    place.product.commit(100)
    slower = place.product.commit(90)

    # The program prints a number of its commit: if Valgrind is installed, the verdict would say so.
    ended = place.run("--new", slower, "--parameter", "instructions=no")

    assert 1 == ended.exit_code
    assert re.fullmatch(
        r"perftrend verdict: The only test is slower by (9\.\d|1\d) %\.", ended.out.splitlines()[-1]
    )
    assert "Test result classification: regression" in ended.out
    assert (-1, 6, None) == tuple(place.report()[name] for name in ("vote", "rounds", "change"))


@pytest.mark.parametrize(
    "ends", [("--new", "HEAD"), ("--new", "main", "--old", "v2.0"), ("--new", "v2.0", "--old", "@")]
)
def test_commits_are_named_as_in_git(place: Place, ends: tuple[str, ...]) -> None:
    older = place.product.commit(100)
    place.product.history.git("tag", "v2.0")
    newer = place.product.commit(90)

    ended = place.run(*ends)

    assert 1 == ended.exit_code
    assert (older, newer) == (place.report()["parent"], place.report()["patch"])
    assert ("--old @ is newer than --new v2.0" in ended.err) is ("@" in ends)


def test_archive_has_the_documented_folders_and_the_report(place: Place) -> None:
    place.product.commit(100)
    place.run("--new", place.product.commit(90))

    found = {str(file.relative_to(place.archive)) for file in place.archive.rglob("*") if file.is_file()}

    assert {"1/parent/1/measured.json", "1/parent/2/measured.json"} <= found
    assert {"1/current/1/measured.json", "1/current/2/measured.json"} <= found
    assert {"1/asked.json", "1/report/perftest.json", "1/report/message.txt"} <= found


def test_rounds_are_stored_apart_from_runs(place: Place) -> None:
    place.product.commit(100)
    slower = place.product.commit(90)
    with Store.open(place.store):
        pass

    place.run("--new", slower)

    with Store.open(place.store) as store:
        [found] = store.patch_tests.newest(10)
        [trace] = store.patch_tests.traces(found)
        assert ("perftrend-perftest-command/1", slower, 6, True) == (
            found.name, found.patch, found.rounds, found.ended
        )  # fmt: skip
        assert ("ops", 6, 6) == (trace.unit, len(trace.parent), len(trace.current))
        assert [] == store.runs("1n-veth")
        assert {str(place.archive.resolve() / "1"): ""} == store.archives.versions(found.job)


def test_store_that_is_not_there_is_not_made(place: Place) -> None:
    place.product.commit(100)
    place.run("--new", place.product.commit(90))

    assert not place.store.exists()


def test_rounds_are_archived_and_stored_while_others_follow(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fewest rounds do not settle whether a difference is above the threshold that it is equal to."""
    for name, level in (("older", 100), ("newer", 101)):
        script = scattered(level, seed="same", count=5)
        newer = place.product.history.commit(name, {SCRIPT: script, "build.sh": WORKS})
    with Store.open(place.store):
        pass
    states = []
    usual = Builds.measure

    def noted(self: Builds, built: Any, number: int) -> BuildMeasurement:
        with Store.open(place.store) as store:
            stored = [(each.rounds, each.ended) for each in store.patch_tests.newest(10)]
        report = place.archive / "1" / "report" / "perftest.json"
        told = json.loads(report.read_text()) if report.exists() else {}
        states.append((stored, told.get("ended"), told.get("sentence")))
        return usual(self, built, number)

    monkeypatch.setattr(Builds, "measure", noted)
    place.run("--new", newer, "--rounds", "8")

    assert ([], None, None) == states[0]
    assert ([(6, False)], False, "In progress: 6 of at most 8 rounds.") == states[12]
    with Store.open(place.store) as store:
        assert [(8, True)] == [(each.rounds, each.ended) for each in store.patch_tests.newest(10)]


def test_store_that_cannot_be_written_stops_no_test(place: Place) -> None:
    place.product.commit(100)
    place.store.write_text("no database")

    ended = place.run("--new", place.product.commit(100), "--rounds", "6")

    assert 3 == ended.exit_code
    told = r"the rounds are archived, but not stored: store .*/perftrend.sqlite: this is not a database; .*"
    assert re.search(told + r"; ./run ingest archives/perftrend-perftest-command/1 stores them\n", ended.err)
    assert place.report()["ended"]


def test_commit_that_changes_nothing_passes(place: Place) -> None:
    old = place.product.commit(100)
    place.product.commit(50)
    new = place.product.commit(100)

    ended = place.run("--old", old, "--new", new, "--rounds", "10")

    assert 0 == ended.exit_code
    assert "The only test shows no difference of 1 % or more." in ended.out


def test_commit_is_compared_with_its_first_parent(place: Place) -> None:
    base = place.product.commit(100)
    history = place.product.history
    history.git("checkout", "--quiet", "-b", "side")
    history.commit("Aside", {"NOTES": "aside\n"})
    history.git("checkout", "--quiet", "main")
    main = history.commit("Onwards", {"README": "more\n"})
    merge = history.merge("side", "Merge")

    ended = place.run("--new", merge)

    assert base != main == place.report()["parent"]
    assert "The newer commit is a merge; it is compared with its first parent." in ended.out


def test_patch_that_does_not_build_is_told_with_its_last_lines(place: Place, measured: list[str]) -> None:
    place.product.commit(100)
    broken = place.product.commit(100, BREAKS)

    ended = place.run("--new", broken)

    assert (2, []) == (ended.exit_code, measured)
    assert "The patch does not build: " in ended.out
    assert "router.c:4: error" in (place.bench.folder / "report" / "message.txt").read_text()
    assert (-1, "current") == (place.report()["vote"], place.report()["broken"]["build"])


def test_parent_that_does_not_build_is_not_the_fault_of_the_patch(place: Place) -> None:
    place.product.commit(100, BREAKS)
    fixed = place.product.commit(100)

    ended = place.run("--new", fixed)

    assert 2 == ended.exit_code
    assert (0, "parent") == (place.report()["vote"], place.report()["broken"]["build"])


def test_test_that_fails_with_the_patch_alone_is_told(place: Place) -> None:
    place.product.commit(100)
    failing = place.product.commit(None)

    ended = place.run("--new", failing)

    assert 1 == ended.exit_code
    assert "The only test fails with the patch." in ended.out
    assert -1 == place.report()["vote"]


def test_command_that_prints_no_numbers_ends_the_job_at_once(place: Place, measured: list[str]) -> None:
    parent = place.product.commit(None)
    also = place.product.history.commit("Also", {"NOTES": "x\n"})

    ended = place.run("--new", also)

    assert (2, {parent, also}) == (ended.exit_code, set(measured))
    assert 1 == ended.err.count("nothing can be compared, because the command printed no numbers for ")
    assert 2 == len(measured)


def test_nothing_that_can_be_trusted_is_no_verdict(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.product.commit(100)
    also = place.product.history.commit("Also", {"NOTES": "x\n"})
    now, why = datetime.now(UTC), {"command": f"{NOT_VALID}the generator was slow"}
    monkeypatch.setattr(
        Builds, "measure", lambda _, built, __: BuildMeasurement(built.commit, now, now, {}, why)
    )

    ended = place.run("--new", also)

    assert 4 == ended.exit_code
    assert "could not be measured" in ended.out.splitlines()[-1]


# ---- killed, and started again


@pytest.fixture
def killed(place: Place, measured: list[str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Give the commit whose test was killed in its third measurement."""
    place.product.commit(100)
    slower = place.product.commit(90)
    usual = Builds.measure

    def dies(self: Builds, built: Any, number: int) -> BuildMeasurement:
        if len(measured) == 2:
            raise KeyboardInterrupt
        return usual(self, built, number)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", dies)
        ended = place.run("--new", slower)
    assert 130 == ended.exit_code
    return slower


def test_killed_job_goes_on_where_it_was(place: Place, killed: str, measured: list[str]) -> None:
    ended = place.run("--new", killed, "--resume")

    assert 1 == ended.exit_code
    assert 12 == len(measured)
    assert ["1"] == [entry.name for entry in place.archive.iterdir()]
    assert not list(place.archive.rglob(".*"))


def test_killed_build_of_jenkins_goes_on_under_its_number(
    place: Place, killed: str, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUILD_NUMBER", "1")

    first, again = place.run("--new", killed), place.run("--new", killed)

    assert 12 == len(measured)
    assert (1, 1) == (first.exit_code, again.exit_code)
    assert first.out.splitlines()[-1] == again.out.splitlines()[-1]


def test_without_resuming_the_next_number_is_taken(place: Place, killed: str) -> None:
    place.run("--new", killed)

    assert ["1", "2"] == sorted(entry.name for entry in place.archive.iterdir())


def test_rounds_of_another_patch_are_not_taken(place: Place, killed: str) -> None:
    other = place.product.commit(80)

    ended = place.run("--new", other, "--resume")

    assert 2 == ended.exit_code
    assert "contains rounds of another comparison (parent differs)" in ended.err


# ---- bad use


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give what to compare: --change N of a change in Gerrit, or --new COMMIT"),
        (["--new", "abcdef0", "--change", "3"], "give what to compare"),
        (["--old", "abcdef0", "--change", "3"], "give what to compare"),
        (["--new", "abcdef0"], "abcdef0 does not exist in the repository"),
        (["--new", "HEAD~9"], "'HEAD~9' is not a commit of "),
        (["--new=--all"], "'--all' is not a commit of "),
        (["--change", "3"], "gerrit.url is not set"),
        (["--new", "abcdef0", "--profile", "comand"], "did you mean 'command'?"),
        (["--new", "abcdef0", "--repository", "nowhere"], "nowhere"),
    ],
)
def test_bad_use_is_told_in_one_line(arguments: list[str], said: str, place: Place) -> None:
    place.product.commit(100)

    ended = place.run(*arguments)

    assert ended.exit_code in (2, 3)
    [line] = [line for line in ended.err.splitlines() if said in line]
    assert line.startswith("perftrend: ")
    assert not place.archive.exists()


def test_same_commit_twice_is_refused(place: Place) -> None:
    place.product.commit(100)
    new = place.product.commit(90)

    ended = place.run("--new", new, "--old", new[:9])

    assert (2, True) == (ended.exit_code, "are the same commit; name two" in ended.err)


def test_first_commit_has_nothing_to_be_compared_with(place: Place) -> None:
    ended = place.run("--new", place.product.commit(100))

    assert (2, True) == (ended.exit_code, "it has no parent to compare with" in ended.err)


def test_nothing_to_resume_is_told(place: Place) -> None:
    place.product.commit(100)

    ended = place.run("--new", place.product.commit(90), "--resume")

    assert (2, True) == (ended.exit_code, "has no build to continue" in ended.err)


def test_dry_run_measures_nothing(place: Place, measured: list[str]) -> None:
    place.product.commit(100)

    ended = place.run("--new", place.product.commit(90), "--dry-run")

    assert (0, []) == (ended.exit_code, measured)
    assert "Nothing was measured." in ended.out.splitlines()[-1]
    assert not place.archive.exists()


# ---- a change in Gerrit


@dataclass
class Review:
    """A change of the double's, whose patch set is in the product's repository."""

    place: Place
    double: GerritDouble

    def push(self, parent: float, patch: float | None, build: str = WORKS) -> None:
        self.place.product.commit(parent)
        revision = self.place.product.commit(patch, build)
        self.place.product.history.git("update-ref", "refs/changes/01/1/1", revision)
        told = gerrit.change(1)
        told["revisions"] = {revision: told["revisions"][gerrit.REVISION]}
        self.double.files["/changes/1"] = told

    @property
    def text(self) -> str:
        return str(self.double.posted[-1]["message"])


@pytest.fixture
def review(place: Place, gerrit_double: GerritDouble) -> Review:
    return Review(place, gerrit_double)


@pytest.mark.parametrize(
    ("patch", "vote", "exit_code", "said"),
    [
        ((90, WORKS), -1, 1, "The only test is slower by "),
        ((110, WORKS), 1, 0, "The only test is faster by "),
        ((90, BREAKS), -1, 2, "The patch does not build: "),
        ((None, WORKS), -1, 1, "The only test fails with the patch."),
    ],
)
def test_verdict_is_posted_with_its_vote(
    patch: tuple[float | None, str], vote: int, exit_code: int, said: str, review: Review
) -> None:
    review.push(100, *patch)

    ended = review.place.run("--change", "1")

    assert exit_code == ended.exit_code
    assert review.text.startswith(said)
    assert {"Performance": vote} == review.double.posted[-1]["labels"]
    assert "autogenerated:perftrend:perftrend-perftest-command" == review.double.posted[-1]["tag"]
    assert (1, 1) == (review.place.report()["change"], review.place.report()["patch_set"])


def test_comment_names_the_change_and_jenkins_the_report(
    review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 90)
    commented(monkeypatch, review.double, "Please:\n\nperftest-1n-veth mrrAND64b")
    monkeypatch.setenv("BUILD_NUMBER", "7")
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example/job/p/7/")

    ended = review.place.run()

    assert 1 == ended.exit_code
    assert "Whole report: https://jenkins.example/job/p/7/artifact/report/index.html" in review.text
    files = "https://jenkins.example/job/p/7/artifact/archives/perftrend-perftest-1n-veth/7"
    assert f"Files of all rounds: {files}" in review.text
    assert ["7"] == [entry.name for entry in review.place.archive.iterdir()]


def test_without_a_label_nothing_is_voted(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 90)
    settings = review.place.bench.folder / "settings.yaml"
    settings.write_text(settings.read_text().replace("attempts: 1", "attempts: 1, label: null"))

    review.place.run("--change", "1")

    assert "labels" not in review.double.posted[-1]


def test_nothing_is_posted_where_that_is_not_wanted(review: Review) -> None:
    review.push(100, 90)

    assert 1 == review.place.run("--change", "1", "--no-post").exit_code
    assert [] == review.double.posted


@pytest.mark.parametrize("status", [401, 409, 500])
@pytest.mark.parametrize(("patch", "exit_code"), [(90, 1), (110, 3)])
def test_verdict_that_cannot_be_posted_is_not_lost(
    status: int, patch: float, exit_code: int, review: Review, monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, patch)
    review_of = gerrit.Handler.tell

    def refuse(self: Any, path: str, body: Any) -> None:
        if path.endswith("/review"):
            self.send(status, b"no")
        else:
            review_of(self, path, body)

    monkeypatch.setattr(gerrit.Handler, "tell", refuse)

    ended = review.place.run("--change", "1")

    assert exit_code == ended.exit_code
    assert "the verdict is not posted: POST " in ended.err
    assert "perftrend verdict: The only test is " in ended.out.splitlines()[-1]
    assert "The only test is " in (review.place.archive / "1" / "report" / "message.txt").read_text()


def test_job_that_ends_without_a_verdict_says_why(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 90)
    monkeypatch.setenv("BUILD_NUMBER", "1")
    (review.place.archive / "1").mkdir(parents=True)
    (review.place.archive / "1" / "asked.json").write_text("damaged")

    ended = review.place.run("--change", "1")

    assert 2 == ended.exit_code
    assert review.text.startswith("Could not be measured: ")
    assert "labels" not in review.double.posted[-1]


def test_dry_run_of_a_comment_is_answered(
    review: Review, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 90)
    commented(monkeypatch, review.double, "perftest-1n-veth -- --dry-run")

    assert 0 == review.place.run().exit_code
    assert review.text.startswith("Would measure ")
    assert [] == measured


def test_started_again_it_posts_nothing_twice(review: Review, monkeypatch: pytest.MonkeyPatch) -> None:
    review.push(100, 90)
    monkeypatch.setenv("BUILD_NUMBER", "1")
    review.place.run("--change", "1")
    review.double.files["/changes/1"]["messages"] = review.double.messages

    review.place.run("--change", "1")

    assert 1 == len(review.double.posted)
    assert review.text.strip() == reviews.shorten(review.text)


def test_killed_job_of_a_comment_goes_on_when_it_is_run_again(
    review: Review, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same request is the same build, whatever was measured in between."""
    review.push(100, 90)
    commented(monkeypatch, review.double, "perftest-1n-veth")
    monkeypatch.setenv("GERRIT_EVENT_HASH", "a" * 64)
    usual = Builds.measure

    def dies(self: Builds, built: Any, number: int) -> BuildMeasurement:
        if len(measured) == 3:
            raise KeyboardInterrupt
        return usual(self, built, number)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", dies)
        assert 130 == review.place.run().exit_code
    ended = review.place.run()
    again = review.place.run()

    assert (1, 1, 12) == (ended.exit_code, again.exit_code, len(measured))
    assert ["1"] == [entry.name for entry in review.place.archive.iterdir()]


def test_another_comment_measures_anew(
    review: Review, measured: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    review.push(100, 90)
    for letter in "ab":
        commented(monkeypatch, review.double, "perftest-1n-veth")
        monkeypatch.setenv("GERRIT_EVENT_HASH", letter * 64)
        review.place.run()

    assert ["1", "2"] == sorted(entry.name for entry in review.place.archive.iterdir())
    assert 24 == len(measured)


# ---- the suites, on the simulated testbed

PROFILE = """
description: A product whose installation is a file with a number of rules
artifacts: [rules]
install:
  - ["{python}", -c, "import shutil, sys; shutil.copy(*sys.argv[1:])", "{artifacts}/rules", PLACE]
"""
SUITE = """
*** Settings ***
Library    OperatingSystem
Library    perftrend.keywords.measurement.TestbedKeywords
Library    perftrend.keywords.measurement.MeasuringKeywords
Suite Setup    Open Testbed
Suite Teardown    Close Testbed

*** Test Cases ***
64b-1c-installed-mrr
    [Tags]    MRR    64B    1C
    ${rules} =    Get File    PLACE
    Start Device    acl_rules=${rules.strip()}    jitter=0
    Start Traffic    64B
    Measure MRR
    [Teardown]    Stop Device
"""


@pytest.fixture
def simulated(bench: Any) -> Callable[..., Any]:
    """Give a job that measures an installation on the simulated testbed."""
    folder = bench.folder
    history = History(folder / "product")
    installed = folder / "installed"
    (folder / "profiles").mkdir()
    (folder / "profiles" / "rules.yaml").write_text(PROFILE.replace("PLACE", str(installed)))
    (folder / "rules.robot").write_text(SUITE.replace("PLACE", str(installed)))
    (folder / "settings.yaml").write_text(
        f"project: {{profile: rules, profiles: profiles, repository: {folder / 'product'}}}\n"
        "suites: rules.robot\ntestbed: simulated\n"
    )
    history.commit("Some rules", {"rules": "20\n"})
    commit = history.commit("More rules", {"rules": "30\n"})

    def run(*arguments: str) -> Any:
        given = ["--settings", "settings.yaml", "--new", commit, "--rounds", "5", *arguments]
        return bench._job(perftest.main, given)

    return run


def test_how_much_it_is_stands_before_the_first_round(simulated: Callable[..., Any]) -> None:
    ended = simulated("--dry-run")

    said = "Would measure 1 test on simulated, about "
    assert (0, True) == (ended.exit_code, said in ended.out)


def test_tags_that_no_test_has_are_refused_with_the_nearest(simulated: Callable[..., Any]) -> None:
    ended = simulated("--tags", "mrx")

    assert (2, True) == (ended.exit_code, "no test matches the tags 'mrx'; did you mean 'MRR'" in ended.err)


def test_more_tests_than_may_be_asked_for_are_refused(
    simulated: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, bench: Any
) -> None:
    suite = bench.folder / "rules.robot"
    one = suite.read_text().partition("*** Test Cases ***")[2]
    suite.write_text(suite.read_text() + one.replace("installed", "second"))
    monkeypatch.setenv("PERFTREND_TRIGGER_MAXIMUM_TESTS", "1")

    ended = simulated()

    assert (2, True) == (ended.exit_code, "2 tests are selected, but at most 1 are allowed" in ended.err)
