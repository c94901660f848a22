"""A trending job from its command line to its exit code, on the simulated testbed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from perftrend import archive
from perftrend.errors import StoreError
from perftrend.measure import lock
from perftrend.model import Run
from perftrend.store import Store
from tests.unit.cli.conftest import bench, shared_bench

__all__ = ("bench", "shared_bench")  # fixtures

ONE_TEST = ("--tags", "mrrAND64bAND1cANDethip4-ip4base", "--trial-multiplicity", "2", "--official")
JENKINS = {"JOB_NAME": "nightly/clx", "BUILD_NUMBER": "41", "BUILD_URL": "http://jenkins.example/job/41/"}
# A job of another test may hold the testbed meanwhile: this one starts as if its parent held it.
ALONE = {lock.HELD: "simulated"}
STEADY = ("--device-option", "jitter=0", "--trial-multiplicity", "2", "--official")
PATIENCE_S = 300
MOMENT = datetime(2026, 3, 2, tzinfo=UTC)

HANGS = """
*** Test Cases ***
64b-1c-sleeper-mrr
    [Tags]    MRR    64B    1C
    Evaluate    open('asleep', 'w').write(str(os.getpid()))
    Sleep    1h
"""


def runs(folder: Path) -> list[Any]:
    with Store.open(folder / "perftrend.sqlite") as store:
        return list(store.runs("simulated", last=100))


@dataclass
class Started:
    """A job in a process of its own, whose suite hangs by now."""

    job: subprocess.Popen[str]
    robot: int

    def robot_lives(self) -> bool:
        with contextlib.suppress(OSError):
            return "State:\tZ" not in Path(f"/proc/{self.robot}/status").read_text()
        return False


@pytest.fixture
def hanging(bench: Any) -> Iterator[Started]:
    (bench.folder / "hang.robot").write_text(HANGS)
    command = [
        sys.executable,
        "-m",
        "perftrend.cli.trending",
        "--testbed",
        "simulated",
        "--suites",
        "hang.robot",
    ]
    with subprocess.Popen(
        command, env=os.environ | ALONE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as job:
        asleep = bench.folder / "asleep"
        end = time.monotonic() + PATIENCE_S
        while not (asleep.exists() and asleep.read_text()) and job.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
        try:
            yield Started(job, int(asleep.read_text()))
        finally:
            job.kill()


# ---- one run, started as Jenkins starts it


@pytest.fixture(scope="module")
def jenkins_run(shared_bench: Any) -> Any:
    """Give the job that ran as build 41 of a Jenkins job, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "perftrend.cli.trending", "--testbed", "simulated", *ONE_TEST],
        env=os.environ | ALONE | JENKINS,
        capture_output=True,
        text=True,
        check=False,
    )
    return shared_bench, done


def test_job_ends_well_and_says_what_it_measured(jenkins_run: Any) -> None:
    _, done = jenkins_run

    assert (0, "") == (done.returncode, done.stderr)
    assert "nightly/clx #41: 1 result on simulated" in done.stdout
    assert "64b-1c-ethip4-ip4base-mrr" in done.stdout
    assert "1 normal of 1 test" in done.stdout


def test_archive_holds_what_the_run_left(jenkins_run: Any) -> None:
    bench, _ = jenkins_run
    archive = bench.archives / "nightly-clx" / "41"

    assert {
        "console.log",
        "counters",
        "environment.json",
        "log.html",
        "output.xml",
        "report.html",
        "settings.yaml",
    } == {entry.name for entry in archive.iterdir()}
    assert "64b-1c-ethip4-ip4base-mrr" in (archive / "console.log").read_text()
    counters = archive / "counters" / "Suites.Ethip4-Ip4Base-Mrr.64b-1c-ethip4-ip4base-mrr.json"
    assert ["mrr"] == list(json.loads(counters.read_text()))
    assert json.loads((archive / "environment.json").read_text())["packages"]["numpy"]
    assert 2 == yaml.safe_load((archive / "settings.yaml").read_text())["trial"]["multiplicity"]


def test_nothing_unfinished_is_left_beside_the_archive(jenkins_run: Any) -> None:
    bench, _ = jenkins_run

    assert ["41"] == [entry.name for entry in (bench.archives / "nightly-clx").iterdir()]


def test_report_is_written(jenkins_run: Any) -> None:
    bench, done = jenkins_run

    assert "report: report/index.html" in done.stdout
    assert (bench.folder / "report" / "index.html").stat().st_size > 1000


def test_run_is_stored_under_the_build_of_jenkins(jenkins_run: Any) -> None:
    bench, _ = jenkins_run

    (run,) = runs(bench.folder)

    assert ("nightly/clx", 41, "http://jenkins.example/job/41/") == (run.job, run.build, run.archive)
    assert run.simulated


def test_second_run_of_the_same_build_is_refused(jenkins_run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    bench, _ = jenkins_run
    for name, value in JENKINS.items():
        monkeypatch.setenv(name, value)

    again = bench.trending(*ONE_TEST)

    assert 2 == again.exit_code
    assert "build 41 of nightly/clx is already archived" in again.err
    assert 1 == len(runs(bench.folder))


def test_job_that_was_created_anew_loses_no_run(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in JENKINS.items():
        monkeypatch.setenv(name, value)
    bench.trending(*ONE_TEST, "--no-analysis")
    # The new job has a new workspace.
    shutil.rmtree(bench.folder / "archives")

    assert 0 == bench.trending(*ONE_TEST).exit_code
    assert [41, 41] == [run.build for run in runs(bench.folder)]
    (notice,) = bench.report()["notices"]
    assert notice.startswith("nightly/clx restarted its numbering: the run of ")
    assert notice.endswith(" is also number 41")
    assert 2 == len(bench.report()["tests"][0]["values"])


# ---- a trend, a regression and a progression


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, shared_bench: Any) -> Any:
    """Give a folder with three like runs, the run behind 60 rules, and the run without them again."""
    folder = tmp_path_factory.mktemp("history")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        bench = type(shared_bench)(folder)
        ended = {"usual": bench.trending(*STEADY, "--repeat", "3", "--no-analysis")}
        ended["no report"] = not (folder / "report").exists()
        for name, options in (("slower", ["--device-option", "acl_rules=60"]), ("back", [])):
            ended[name] = bench.trending(*STEADY, *options)
            ended[f"outcomes {name}"] = bench.outcomes()
        ended["alone"] = bench.analysis()
        ended["outcomes alone"] = bench.outcomes()
        ended["runs"] = runs(folder)
    return ended


def test_repeat_measures_so_many_runs(history: Any) -> None:
    assert [1, 2, 3, 4, 5] == [run.build for run in history["runs"]]
    assert {"perftrend-trending-nightly-simulated"} == {run.job for run in history["runs"]}


def test_without_analysis_the_job_ends_after_storing(history: Any) -> None:
    assert 0 == history["usual"].exit_code
    assert "normal" not in history["usual"].out
    assert history["no report"]


def test_run_with_other_options_is_an_experiment_beside_the_nightly_trend(bench: Any) -> None:
    (bench.folder / "settings.yaml").write_text("device_options: {jitter: 0}\n")
    nightly = (*ONE_TEST[:2], "--settings", "settings.yaml")
    tried = (*nightly, "--device-option", "acl_rules=60", "--trial-multiplicity", "2")

    bench.trending(*nightly, "--repeat", "3", "--no-analysis")
    ended = bench.trending(*tried)
    report = bench.report()
    alone = bench.analysis("--settings", "settings.yaml")

    name = "acl_rules=60 trial.multiplicity=2"
    assert 0 == ended.exit_code, ended.err
    assert f"this is an experiment ({name}); nightly trends do not include it" in report["notices"]
    assert "--official includes it" in ended.err
    assert [(name, "normal")] == [
        (test["parameters"]["experiment"], test["outcome"]) for test in report["tests"]
    ]
    assert "perftrend-trending-nightly-simulated/3: 1 normal of 1 test" in alone.out
    with Store.open(bench.folder / "perftrend.sqlite") as store:
        assert ["", "", "", name] == [run.experiment for run in store.runs("simulated")]
        assert [1, 3] == [len(series.runs) for series in store.series("simulated")]
        assert "perftrend-experiment-simulated" == store.runs("simulated")[-1].job


def test_experiment_is_known_as_one_wherever_its_output_is_read(bench: Any) -> None:
    bench.trending(*ONE_TEST[:-1], "--no-analysis")
    shutil.copytree(bench.folder / "archives", bench.folder / "elsewhere")
    output = next((bench.folder / "elsewhere").rglob("output.xml"))

    with Store.open(bench.folder / "other.sqlite") as store:
        run = Run("simulated", "by-hand", 1, MOMENT, MOMENT)
        taken = archive.ingest(store, run, output)

        assert "trial.multiplicity=2" == taken.run.experiment
        assert {"trial.multiplicity=2"} == {result.key["experiment"] for result in store.results(taken.run)}


def test_slower_device_is_a_regression_of_the_tests_that_it_touches_and_of_no_others(history: Any) -> None:
    """60 rules for all: those of all but one test that routes; bridges and cross-connects have no rules."""
    assert 1 == history["slower"].exit_code
    assert {
        "64b-1c-ethip4-ip4base-mrr": "regression",
        "64b-1c-ethip4-ip4base-acl20-mrr": "regression",
        "64b-1c-ethip4-ip4base-acl60-mrr": "normal",
        "64b-1c-ethip4-ip4scale10k-mrr": "regression",
        "64b-1c-eth-l2bdbasemaclrn-mrr": "normal",
        "64b-1c-eth-l2xcbase-mrr": "normal",
        "64b-1c-dot1q-ip4base-mrr": "regression",
        "64b-1c-dot1q-l2bdbasemaclrn-mrr": "normal",
    } == history["outcomes slower"]


def test_device_as_before_is_a_progression(history: Any) -> None:
    assert 0 == history["back"].exit_code
    assert {
        "64b-1c-ethip4-ip4base-mrr": "progression",
        "64b-1c-ethip4-ip4base-acl20-mrr": "progression",
        "64b-1c-ethip4-ip4base-acl60-mrr": "normal",
        "64b-1c-ethip4-ip4scale10k-mrr": "progression",
        "64b-1c-eth-l2bdbasemaclrn-mrr": "normal",
        "64b-1c-eth-l2xcbase-mrr": "normal",
        "64b-1c-dot1q-ip4base-mrr": "progression",
        "64b-1c-dot1q-l2bdbasemaclrn-mrr": "normal",
    } == history["outcomes back"]


def test_analysis_alone_says_the_same_of_the_newest_run(history: Any) -> None:
    assert history["back"].exit_code == history["alone"].exit_code
    assert history["outcomes back"] == history["outcomes alone"]


# ---- a run that a Gerrit comment asked for


def commented(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Hand a comment on as Jenkins does."""
    comment = f"Patch Set 3: Code-Review+1\n\n(1 comment)\n\n{text}"
    monkeypatch.setenv("GERRIT_EVENT_COMMENT_TEXT", base64.b64encode(comment.encode()).decode())


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("trendingtest-simulated mrrAND64bAND1cANDethip4-ip4base", 1),
        ("Infra issue, again.\r\ntrendingtest-simulated\u00a0mrrAND64bAND1cANDethip4-ip4base. \r\nThanks", 1),
        ("trendingtest-simulated mrrAND64bAND1cAND*acl20 mrrAND64bAND1cAND*acl60", 2),
        ("trendingtest-simulated mrrAND64bAND1cAND*acl20\ntrendingtest-simulated mrrAND64bAND1cAND*acl60", 2),
        ("> trendingtest-simulated nonsense\ntrendingtest-simulated mrrAND64bAND1cAND*acl20", 1),
        ("trendingtest-2n-clx nonsense\ntrendingtest-simulated mrrAND64bAND1cAND*acl20", 1),
        ("trendingtest-simulated", 8),
    ],
)
def test_comment_chooses_the_tests(
    text: str, count: int, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commented(monkeypatch, text)

    ended = bench.trending("--no-analysis")

    assert (0, "") == (ended.exit_code, ended.err)
    assert f"{count} of {count} results measured" in ended.out.splitlines()[-1]


def test_comment_outweighs_the_environment_and_an_option_the_comment(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_TRIAL_MULTIPLICITY", "1")
    monkeypatch.setenv("PERFTREND_TAGS", "mrrAND64b")
    commented(monkeypatch, "trendingtest-simulated mrrAND64bAND1cAND*acl20 mrrAND64bAND1cAND*acl60")

    assert "2 of 2 results" in bench.trending("--no-analysis").out
    assert "1 of 1 results" in bench.trending("--no-analysis", *ONE_TEST).out


def test_comment_says_how_trials_are_made_and_what_is_left_out(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commented(
        monkeypatch, "trendingtest-simulated !*acl* !*l2* !*scale* !dot1q* -- --duration 0.3 --multiplicity 3"
    )

    ended = bench.trending("--no-analysis")

    experiment = "trial.duration_s=0.3 trial.multiplicity=3"
    assert 0 == ended.exit_code
    assert f"this is an experiment ({experiment}); nightly trends do not include it" in ended.err
    assert "1 of 1 results" in ended.out.splitlines()[-1]
    archive = bench.archives / "perftrend-experiment-simulated" / "1"
    kept = yaml.safe_load((archive / "settings.yaml").read_text())
    assert (0.3, 3) == (kept["trial"]["duration_s"], kept["trial"]["multiplicity"])


def test_comment_asks_for_a_test_list_of_the_specification(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERFTREND_TRIAL_MULTIPLICITY", "1")
    monkeypatch.setenv("PERFTREND_ANALYSIS_SPECIFICATION", "watched.yaml")
    lists = {"rules": ["mrrAND64bAND1cAND*acl20", "mrrAND64bAND1cAND*acl60"]}
    (bench.folder / "watched.yaml").write_text(yaml.safe_dump({"tests": [{}], "lists": lists}))
    commented(monkeypatch, "trendingtest-simulated #rules")

    assert "2 of 2 results" in bench.trending("--no-analysis").out

    commented(monkeypatch, "trendingtest-simulated #ruler")
    refused = bench.trending("--no-analysis")
    assert (2, True) == (
        refused.exit_code,
        "no test list is named '#ruler'; did you mean '#rules'?" in refused.err,
    )


def test_dry_run_tells_what_would_be_measured_and_measures_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    commented(
        monkeypatch,
        "trendingtest-simulated mrrAND64bAND1cAND*acl20 -- --dry-run --multiplicity 50 --duration 6",
    )

    ended = bench.trending()

    assert (0, "") == (ended.exit_code, ended.err)
    assert [
        "64b-1c-ethip4-ip4base-acl20-mrr",
        "perftrend verdict: trendingtest-simulated mrrAND64bAND1cAND*acl20 -- --duration 6 --multiplicity 50 "
        "--dry-run would measure 1 test, about 6 minutes, at most 26 minutes",
    ] == ended.out.splitlines()
    assert [] == runs(bench.folder)


def test_comment_that_asks_for_too_many_tests_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_TRIGGER_MAXIMUM_TESTS", "3")
    commented(monkeypatch, "trendingtest-simulated")

    ended = bench.trending()

    assert 2 == ended.exit_code
    assert "it selects 8 tests, but a comment may start 3; select fewer by tags" in ended.err


def test_last_line_says_how_many_results_were_measured(bench: Any) -> None:
    ended = bench.trending(*ONE_TEST, "--no-analysis")

    expected = "perftrend verdict: perftrend-trending-nightly-simulated/1: 1 of 1 results measured"
    assert expected == ended.out.splitlines()[-1]


# ---- a run that goes wrong


def test_suite_that_hangs_is_ended_and_told_by_name(bench: Any) -> None:
    (bench.folder / "hang.robot").write_text(HANGS)

    ended = bench.trending("--suites", "hang.robot", "--timeout", "2")

    assert 4 == ended.exit_code
    assert ended.err.startswith("perftrend: the suites were ended after 2 s; see ")
    assert {"64b-1c-sleeper-mrr": "failed"} == bench.outcomes()


def test_interrupted_run_leaves_nothing(hanging: Started, bench: Any) -> None:
    hanging.job.send_signal(signal.SIGINT)
    _, said = hanging.job.communicate(timeout=PATIENCE_S)

    assert (130, "perftrend: interrupted\n") == (hanging.job.returncode, said)
    assert [] == list(bench.archives.glob("*/*"))
    assert [] == runs(bench.folder)
    assert not hanging.robot_lives()


def test_killed_run_ends_its_suites_and_the_next_start_cleans_up(hanging: Started, bench: Any) -> None:
    hanging.job.kill()
    hanging.job.communicate(timeout=PATIENCE_S)
    end = time.monotonic() + PATIENCE_S
    while hanging.robot_lives() and time.monotonic() < end:
        time.sleep(0.01)
    assert not hanging.robot_lives()
    assert [".1.unfinished"] == [entry.name for entry in bench.archives.glob("*/*")]

    # Its number is taken: another job that started beside it might have the next one.
    assert 0 == bench.trending(*ONE_TEST, "--no-analysis").exit_code
    assert ["2"] == [entry.name for entry in bench.archives.glob("*/*")]


def test_run_that_the_store_could_not_take_is_taken_by_the_next_start(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr("perftrend.store.Store.add", full)
        failed = bench.trending("--tags", "mrrAND64bAND1cANDethip4-ip4base")
    again = bench.trending("--tags", "mrrAND64bAND1cANDethip4-ip4base")

    assert (3, "perftrend: the disk is full\n") == (failed.exit_code, failed.err)
    assert 0 == again.exit_code
    assert "run perftrend-trending-nightly-simulated/1 was archived, but not stored until now" in again.err
    assert 2 == len(bench.report()["runs"])
