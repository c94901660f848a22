"""The client of Jenkins on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
import requests

from perftrend.clients.jenkins import Jenkins, RefusedError
from tests.integration.servers.hudson import Server

JOB = "client's jöb, all of it"
PATIENT = f"{JOB}, later"
LONG, NEVER = f"{JOB}, for long", f"{JOB}, never"
XML = """<project>
  <quietPeriod>0</quietPeriod>
  <properties><hudson.model.ParametersDefinitionProperty><parameterDefinitions>
    <hudson.model.StringParameterDefinition>
      <name>WORDS</name><description/><defaultValue>by default</defaultValue>
    </hudson.model.StringParameterDefinition>
    <hudson.model.BooleanParameterDefinition>
      <name>FAILS</name><description/><defaultValue>false</defaultValue>
    </hudson.model.BooleanParameterDefinition>
  </parameterDefinitions></hudson.model.ParametersDefinitionProperty></properties>
  <builders><hudson.tasks.Shell><command>
    set +x
    echo "said: $WORDS ✓ äöü"
    mkdir -p out; seq 100000 &gt; out/numbers.txt; echo odd &gt; 'out/a b?#%.txt'
    sleep 1
    [ "$FAILS" = false ]
  </command></hudson.tasks.Shell></builders>
  <publishers><hudson.tasks.ArtifactArchiver>
    <artifacts>out/**</artifacts><latestOnly>false</latestOnly><allowEmptyArchive>false</allowEmptyArchive>
  </hudson.tasks.ArtifactArchiver></publishers>
</project>"""
NUMBERS = b"".join(b"%d\n" % number for number in range(1, 100001))


@pytest.fixture(scope="module")
def jenkins(jenkins_server: Server) -> Iterator[Jenkins]:
    jenkins_server.create_job(JOB, XML)
    jenkins = Jenkins(jenkins_server.url)
    jenkins.wait(jenkins.start(JOB, {"WORDS": "a&b; `c`"}), timeout_s=300, poll_s=0.2)
    jenkins.wait(jenkins.start(JOB, {"FAILS": "true"}), timeout_s=300, poll_s=0.2)
    return jenkins


def test_jobs_are_listed_by_pattern(jenkins: Jenkins) -> None:
    assert JOB in list(jenkins.jobs())
    assert [JOB] == list(jenkins.jobs("client's *", view="All"))
    assert [] == list(jenkins.jobs("client's"))


def test_builds_tell_results_parameters_and_times(jenkins: Jenkins) -> None:
    failed, passed = jenkins.builds(JOB, numbers=(1, 2))

    assert ("FAILURE", "SUCCESS") == (failed.result, passed.result)
    assert {"WORDS": "a&b; `c`", "FAILS": "false"} == passed.parameters
    assert {"WORDS": "by default", "FAILS": "true"} == failed.parameters
    shown = requests.get(f"{passed.url}api/json", timeout=60).json()
    assert (shown["duration"] / 1000, shown["timestamp"] / 1000) == pytest.approx(
        (passed.duration_s, passed.started.timestamp())
    )
    assert passed == jenkins.build(JOB, 1)


def test_builds_before_a_moment_are_left_out(jenkins: Jenkins) -> None:
    second = jenkins.build(JOB, 2)

    assert 1 not in [build.number for build in jenkins.builds(JOB, since=second.started)]


def test_artifacts_are_read_whole(jenkins: Jenkins) -> None:
    files = {artifact.path: artifact for artifact in jenkins.build(JOB, 1).artifacts}
    assert {"out/numbers.txt", "out/a b?#%.txt"} == files.keys()

    with jenkins.open(files["out/numbers.txt"].url) as chunks:
        assert NUMBERS == b"".join(chunks)
    with jenkins.open(files["out/a b?#%.txt"].url) as chunks:
        assert b"odd\n" == b"".join(chunks)


def test_console_is_text(jenkins: Jenkins) -> None:
    text = "".join(jenkins.console(JOB, 1))

    assert "said: a&b; `c` ✓ äöü" in text
    assert text.rstrip().endswith("Finished: SUCCESS")


def test_console_of_a_running_build_is_followed_to_its_end(jenkins: Jenkins) -> None:
    started = jenkins.start(JOB, {"WORDS": "followed"})
    number = next(iter(wait_for_number(jenkins, started.after)))

    text = "".join(jenkins.console(JOB, number, poll_s=0.1))

    assert 1 == text.count("said: followed")
    assert text.rstrip().endswith("Finished: SUCCESS")


def wait_for_number(jenkins: Jenkins, after: int) -> Iterator[int]:
    while True:
        yield from (build.number for build in jenkins.builds(JOB, numbers=(after + 1, None)))


def test_each_of_two_starts_finds_its_own_build(jenkins: Jenkins) -> None:
    first, second = (jenkins.start(JOB, {"WORDS": words}) for words in ("first", "second"))

    built = [jenkins.wait(each, timeout_s=300, poll_s=0.2) for each in (second, first)]

    assert ["second", "first"] == [build.parameters["WORDS"] for build in built]


def test_build_that_waits_is_told_and_found_in_the_queue_and_out_of_it(
    jenkins: Jenkins, jenkins_server: Server
) -> None:
    jenkins_server.create_job(PATIENT, XML.replace("<quietPeriod>0<", "<quietPeriod>10<"))
    before = datetime.now(UTC)
    started = jenkins.start(PATIENT, {"WORDS": "ü & waits"})

    [waiting] = jenkins.queue(PATIENT)
    assert (PATIENT, "ü & waits") == (waiting.job, waiting.parameters["WORDS"])
    assert "quiet period" in waiting.why
    assert abs(waiting.since - before) < timedelta(minutes=10)
    assert [waiting.number] == [each.number for each in jenkins.find(PATIENT, "WORDS", "ü & waits")]

    build = jenkins.wait(started, timeout_s=300, poll_s=0.2)
    assert [] == jenkins.queue(PATIENT)
    assert [build] == jenkins.find(PATIENT, "WORDS", "ü & waits")
    assert [] == jenkins.find(PATIENT, "WORDS", "never said")


def test_running_build_is_aborted_and_may_be_aborted_again(jenkins: Jenkins, jenkins_server: Server) -> None:
    """On a recent Java, this server cannot end the build's processes, and therefore calls it a failure."""
    jenkins_server.create_job(LONG, XML.replace("sleep 1\n", "sleep 3600\n"))
    started = jenkins.start(LONG, {"WORDS": "too long"})
    while not (builds := list(jenkins.builds(LONG))):
        pass

    jenkins.abort(builds[0])
    ended = jenkins.wait(started, timeout_s=300, poll_s=0.2)
    jenkins.abort(ended)

    assert ended.result in ("ABORTED", "FAILURE")
    assert ended.result == jenkins.build(LONG, ended.number).result


def test_build_that_waits_is_removed_from_the_queue(jenkins: Jenkins, jenkins_server: Server) -> None:
    jenkins_server.create_job(NEVER, XML.replace("<quietPeriod>0<", "<quietPeriod>3600<"))
    jenkins.start(NEVER, {"WORDS": "wrong"})
    [waiting] = jenkins.queue(NEVER)

    jenkins.cancel(waiting)
    jenkins.cancel(waiting)

    assert ([], []) == (jenkins.queue(NEVER), list(jenkins.builds(NEVER)))


def test_missing_job_is_answered_with_the_nearest(jenkins: Jenkins) -> None:
    with pytest.raises(RefusedError, match='did you mean "client\'s jöb, all of it"'):
        jenkins.build("client's jöb, al of it", 1)
