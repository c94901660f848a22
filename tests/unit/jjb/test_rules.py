"""Rules for all Jenkins jobs: no expansion by a shell, one job at a time on a testbed, failures reported."""

from __future__ import annotations

import base64
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend import errors, trigger
from perftrend.errors import UsageError
from perftrend.execution import job_request
from perftrend.report import sentence
from perftrend.settings import Settings
from tests.unit.jjb import rendering

TESTBED = "2n-clx"
HASH = "0123abcd"
EVENT = "Patch Set 3: Code-Review+1\n\n(1 comment)\n\n"
COMMENTS = {
    "trendingtest": f"perftrend-trending-nightly-{TESTBED}",
    "analysistest": f"perftrend-analysis-{TESTBED}",
    "bisecttest": f"perftrend-bisect-{TESTBED}",
    "perftest": f"perftrend-perftest-{TESTBED}",
}
MEASURING = ["trending-nightly", "trending-weekly", "bisect", "perftest"]


def texts(job: Any, path: str) -> list[str]:
    return [element.text for element in job.iterfind(f".//{path}")]


def pattern(job: Any) -> re.Pattern[str]:
    """Compile the pattern as Gerrit Trigger does, which searches the comment with DOTALL."""
    (text,) = texts(job, "commentAddedCommentContains")
    return re.compile(text, re.DOTALL)


# ---- builders


def test_builders_are_run_and_a_job_with_nothing_for_a_shell_to_expand(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        (command,) = texts(job.find("builders"), "command")
        assert re.fullmatch(r"(CI=true )?\./run [a-z]+( --[a-z-]+)*", command), name


def test_nothing_else_is_a_command(jobs: dict[str, Any]) -> None:
    """A condition may be one: it is the same for everybody, but for the number that Jenkins counts."""
    for job in jobs.values():
        others = {element.text for element in job.iter("command")} - {*texts(job.find("builders"), "command")}
        conditions = [other.replace("/$BUILD_NUMBER ", "") for other in others]
        assert not any("$" in condition or "`" in condition for condition in conditions)
        assert not list(job.iter("script", "triggerScript"))
        assert not any(texts(job, "presendScript") + texts(job, "postsendScript"))


def test_regression_is_a_failure_or_unstable(jobs: dict[str, Any]) -> None:
    assert [str(errors.EXIT_UNSTABLE)] == texts(jobs[f"perftrend-analysis-{TESTBED}"], "unstableReturn")


# ---- comments


def right(word: str) -> Iterator[str]:
    trigger = f"{word}-{TESTBED}"
    if word == "bisecttest":
        trigger += f" {HASH}"
    yield from (trigger, f"{trigger} ", f"{trigger}.", f"{trigger}\r", f"{trigger}\u00a0")
    if word != "analysistest":
        tags = f"{trigger} mrrANDnic_*ANDdrv_avfAND1cAND64bANDeth-l2patch"
        yield from (tags, f"{trigger}\u00a0ip4??p-* L3Fwd NOTsoak.", f"{trigger}\tndr[pdr] \r")
    if word in ("perftest", "bisecttest"):
        yield from (f"{trigger} mrr !*scale* !soak", f"{trigger} #2n-clx-soak")


def wrong(word: str) -> Iterator[str]:
    trigger = f"{word}-{TESTBED}"
    yield from (f"> {trigger}", f"    {trigger}", f"\t{trigger}", f"please {trigger}", f"* {trigger}")
    yield from (f"{trigger}x", f"{trigger}-x", f"{trigger}: done", f"{trigger}'s", f"{trigger}/1")
    yield from (f"{word}-2n-icx", f"csit-{trigger}", f"({trigger})", f"`{trigger}`", f"{trigger}?")


@pytest.mark.parametrize("word", COMMENTS)
def test_trigger_on_a_line_of_its_own_starts_the_job(word: str, jobs: dict[str, Any]) -> None:
    searched = pattern(jobs[COMMENTS[word]])

    for line in right(word):
        for comment in (line, EVENT + line, f"{EVENT}Infra issue, again.\n{line}\nThanks!"):
            assert searched.search(comment), comment


@pytest.mark.parametrize("word", COMMENTS)
def test_whatever_else_does_not(word: str, jobs: dict[str, Any]) -> None:
    searched = pattern(jobs[COMMENTS[word]])

    for line in wrong(word):
        for comment in (line, EVENT + line, f"{EVENT}before\n{line}\nafter"):
            assert not searched.search(comment), comment


@pytest.mark.parametrize("word", COMMENTS)
def test_no_comment_starts_two_kinds_of_jobs(word: str, jobs: dict[str, Any]) -> None:
    for line in right(word):
        started = {name for other, name in COMMENTS.items() if pattern(jobs[name]).search(line)}
        assert {COMMENTS[word]} == started


def requests(comment: str, testbed: str = TESTBED) -> list[trigger.Trigger]:
    found = (each for each in trigger.parse(comment) if isinstance(each, trigger.Trigger))
    return [each for each in found if each.testbed == testbed]


@pytest.mark.parametrize("word", ["trendingtest", "bisecttest", "perftest"])
@given(st.text(" \u00a0", max_size=5), st.text("abON-*.,!#$> \t\u00a0\r", max_size=12))
def test_no_request_is_missed(jobs: dict[str, Any], word: str, before: str, after: str) -> None:
    line = f"{before}{word.upper()}-{TESTBED}{f' {HASH}' if word == 'bisecttest' else ''}{after}"

    if requests(line):
        assert pattern(jobs[COMMENTS[word]]).search(EVENT + line)


@pytest.mark.parametrize("word", ["trendingtest", "bisecttest", "perftest"])
def test_pattern_is_one_that_a_person_can_read(jobs: dict[str, Any], word: str) -> None:
    assert 60 > len(pattern(jobs[COMMENTS[word]]).pattern)


@given(st.text("ab-*.!$> \t\u00a0\r", max_size=12))
def test_the_job_understands_what_the_grammar_does(tail: str) -> None:
    settings = Settings(testbed="1n-veth")
    comment = f"{EVENT}trendingtest-{settings.testbed}{tail}"
    encoded = {job_request.VARIABLE: base64.b64encode(comment.encode()).decode()}
    found = requests(comment, settings.testbed)
    try:
        understood = job_request.read_request(encoded, "trending", settings)
    except UsageError:
        understood = None

    if understood is not None:
        assert found
    elif found:
        # A tag is needed beside what is left out.
        assert any(each.exclude for each in found)


@pytest.mark.parametrize("word", COMMENTS)
def test_no_two_repetitions_of_blanks_meet(word: str, jobs: dict[str, Any]) -> None:
    """A comment of 16,000 blanks would otherwise keep Jenkins busy for seconds.

    A possessive repetition gives nothing back, so that another may follow it.
    """
    (text,) = texts(jobs[COMMENTS[word]], "commentAddedCommentContains")
    blanks = r"\[ (?:\\t)?\\u00A0\]"

    assert re.search(blanks, text)
    assert not re.search(rf"{blanks}[*+](?!\+)(?:\\.\?)?{blanks}[*+]", text)


def test_what_people_type_arrives_encoded(jobs: dict[str, Any]) -> None:
    for job in jobs.values():
        for started in job.iter(
            "{*}com.sonyericsson.hudson.plugins.gerrit.trigger.hudsontrigger.GerritTrigger"
        ):
            modes = {name: started.findtext(f"{name}ParameterMode") for name in (
                "commentText", "commitMessage", "changeSubject", "nameAndEmail"
            )}  # fmt: skip
            assert {"BASE64"} == set(modes.values())


def test_a_measurement_is_no_vote(jobs: dict[str, Any]) -> None:
    for name in COMMENTS.values():
        (votes,) = jobs[name].iter("skipVote")
        assert {"true"} == {vote.text for vote in votes}
    assert {"onNotBuilt", "onAborted"} == {
        vote.tag for vote in next(jobs["perftrend-verify"].iter("skipVote")) if vote.text == "true"
    }


# ---- testbeds and time


@pytest.mark.parametrize("kind", MEASURING)
def test_whoever_measures_locks_the_testbed(kind: str, jobs: dict[str, Any]) -> None:
    job = jobs[f"perftrend-{kind}-{TESTBED}"]

    assert [f"perftrend-{TESTBED}"] == texts(job, "labelName")
    assert ["1"] == texts(job, "resourceNumber")


def test_whoever_does_not_measure_locks_nothing(jobs: dict[str, Any]) -> None:
    for name in (f"perftrend-analysis-{TESTBED}", "perftrend-verify"):
        assert [] == texts(jobs[name], "labelName")


def test_no_variable_of_jenkins_is_taken_for_a_misspelt_setting(jobs: dict[str, Any]) -> None:
    """A lock's variable that began with PERFTREND_ would be refused by every job."""
    for job in jobs.values():
        assert not any(name.startswith("PERFTREND_") for name in texts(job, "resourceNamesVar"))


def test_concurrent_builds_where_they_are_safe(jobs: dict[str, Any]) -> None:
    one_by_one = {name for name, job in jobs.items() if job.findtext("concurrentBuild") == "false"}

    assert {f"perftrend-trending-{cadence}-{TESTBED}" for cadence in ("nightly", "weekly")} == one_by_one


def test_timers(jobs: dict[str, Any]) -> None:
    timed = {name: job.findtext(".//hudson.triggers.TimerTrigger/spec") for name, job in jobs.items()}

    assert {
        f"perftrend-trending-nightly-{TESTBED}": "30 22 * * 0-4",
        f"perftrend-trending-weekly-{TESTBED}": "0 4 * * 6",
        f"perftrend-analysis-{TESTBED}": "0 12 * * *",
    } == {name: spec for name, spec in timed.items() if spec}


def test_every_build_ends_and_is_forgotten(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        assert int(job.findtext(".//timeoutMinutes")) > 0, name
        assert int(job.findtext(".//daysToKeep")) > 0, name
        assert job.find(".//hudson.plugins.timestamper.TimestamperBuildWrapper") is not None, name


# ---- what becomes of a build


def test_trending_starts_the_analysis_of_its_build(jobs: dict[str, Any]) -> None:
    for cadence in ("nightly", "weekly"):
        (start,) = jobs[f"perftrend-trending-{cadence}-{TESTBED}"].iter(
            "hudson.plugins.parameterizedtrigger.BuildTriggerConfig"
        )
        passed = dict(line.split("=") for line in start.findtext(".//properties").split())
        analysis = jobs[start.findtext("projects")]

        assert "FAILED_OR_BETTER" == start.findtext("condition")
        assert ("$JOB_NAME", "$BUILD_NUMBER") == (
            passed["PERFTREND_ANALYSIS_JOB"],
            passed["PERFTREND_ANALYSIS_BUILD"],
        )
        assert set(passed) <= {entry.findtext("name") for entry in analysis.find(".//parameterDefinitions")}


def test_the_verdict_becomes_the_description(jobs: dict[str, Any]) -> None:
    said = f"perftrend verdict: {sentence([])}"
    for name in COMMENTS.values():
        for path in ("regexp", "regexpForFailed"):
            (regexp,) = texts(jobs[name], path)
            found = re.search(regexp, said)
            assert found
            assert found.group(1) == sentence([])


def test_mails_are_the_files_that_jobs_write(jobs: dict[str, Any]) -> None:
    for name in COMMENTS.values():
        conditions = {}
        for conditional in jobs[name].iter("org.jenkins__ci.plugins.flexible__publish.ConditionalPublisher"):
            file = conditional.findtext("condition/file")
            if file:
                conditions[file] = conditional.findtext(".//defaultContent")

        assert {
            f"report/mails/{mail}.html": f'${{FILE, path="report/mails/{mail}.html", charSet="UTF-8"}}'
            for mail in ("failed", "failed-job", "regressions", "progressions", "testbed")
        } == conditions


def test_dead_build_is_told_only_where_the_job_left_nothing(jobs: dict[str, Any], tmp_path: Path) -> None:
    (job,) = (job for name, job in jobs.items() if name == f"perftrend-analysis-{TESTBED}")
    condition = job.find(
        ".//condition[@class='org.jenkins_ci.plugins.run_condition.contributed.ShellCondition']"
    )
    mails = tmp_path / "report" / "mails"
    mails.mkdir(parents=True)

    def told() -> bool:
        done = subprocess.run(["sh", "-c", condition.findtext("command")], cwd=tmp_path, check=False)
        return done.returncode == 0

    assert told()
    (mails / "failed-job.html").write_text("")
    assert not told()
    (mails / "failed-job.html").rename(tmp_path / "report" / "index.html")
    assert not told()


def test_stored_run_is_not_told_as_a_dead_build(jobs: dict[str, Any], tmp_path: Path) -> None:
    """A run of which one test failed is stored, and its analysis tells of it."""
    job = jobs[f"perftrend-trending-nightly-{TESTBED}"]
    condition = job.find(
        ".//condition[@class='org.jenkins_ci.plugins.run_condition.contributed.ShellCondition']"
    )
    command = ["sh", "-c", condition.findtext("command")]
    told = []
    for build in ("6", "7"):
        (tmp_path / "archives" / "trending" / build).mkdir(parents=True)
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "BUILD_NUMBER": "7"}, check=False)
        told.append(done.returncode == 0)

    assert [True, False] == told


def test_every_file_is_documented() -> None:
    page = (rendering.CHECKOUT / "docs" / "jenkins.rst").read_text(encoding="utf-8")

    assert [] == [file.name for file in rendering.JJB.glob("*") if f"``jjb/{file.name}``" not in page]


def test_every_parameter_and_job_is_documented(jobs: dict[str, Any]) -> None:
    page = (rendering.CHECKOUT / "docs" / "jenkins.rst").read_text(encoding="utf-8")
    names = {name.replace("nightly", "CADENCE").replace("weekly", "CADENCE") for name in jobs}
    asked = {entry.findtext("name") for job in jobs.values() for entry in job.find(".//parameterDefinitions")}

    assert [] == [name for name in asked if f"``{name}``" not in page]
    assert [] == [name for name in names if f"``{name.replace(TESTBED, 'TESTBED')}``" not in page]
