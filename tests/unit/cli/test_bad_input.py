"""Bad input to the jobs: one line, an exit code, nothing half-written."""

from __future__ import annotations

import base64
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perftrend.measure import lock
from perftrend.store import Store


def refused(ended: Any, exit_code: int, hint: str) -> None:
    """Check that a job refused in one line and left no archive."""
    assert exit_code == ended.exit_code
    assert ended.err.startswith("perftrend: ")
    assert 1 == ended.err.count("\n")
    assert hint in ended.err
    assert not list(Path().glob("archives/*/*"))
    assert not Path("report").exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["--testbed", "simulatet"], "testbed 'simulatet' is unknown; did you mean 'simulated'?"),
        (["--testbed", "../simulated"], "testbed '../simulated' is unknown"),
        (["--tags", "mrrAND65b"], "no test matches the tags 'mrrAND65b'; did you mean '64B' for '65b'?"),
        (["--tags", ""], "tags"),
        (["--cadence", "nightlie"], "no cadence is named 'nightlie'; did you mean 'nightly'?"),
        (["--tagz", "mrr"], "unrecognized arguments: --tagz"),
        (["--method", "magic"], "invalid choice: 'magic'"),
        (["--repeat", "0"], "0 is less than 1"),
        (["--repeat", "x"], "invalid count value: 'x'"),
        (["--trial-duration", "-1"], "trial.duration_s is -1.0"),
        (["--trial-duration", "nan"], "trial.duration_s is nan"),
        (["--trial-multiplicity", "0"], "trial.multiplicity is 0"),
        (["--timeout", "0"], "timeout_s is 0.0"),
        (["--wait", "-1"], "wait_s is -1.0"),
        (["--window", "3"], "analysis.window is 3"),
        (["--device-option", "acl_rulez=60"], "no option 'acl_rulez'; did you mean 'acl_rules'?"),
        (["--device-option", "acl_rules=many"], "device option acl_rules='many': write a number"),
        (["--device-option", "acl_rules=$(reboot)"], "device option acl_rules='$(reboot)'"),
        (["--device-option", "acl_rules"], "--device-option 'acl_rules': write KEY=VALUE"),
        (["--device-option", "=60"], "--device-option '=60': write KEY=VALUE"),
        (["--suites", "nowhere"], "does not exist"),
        (["--testbeds", "nowhere"], "folder of testbeds nowhere does not exist"),
        (["--settings", "nowhere.yaml"], "nowhere.yaml: No such file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_bad_option_is_refused(arguments: list[str], hint: str, bench: Any) -> None:
    refused(bench.trending(*arguments), 2, hint)


def test_bad_variable_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_TRIAL_DURATION", "1")

    refused(bench.trending(), 2, "did you mean 'PERFTREND_TRIAL_DURATION_S'?")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("testbed: [", "is not valid YAML"),
        ("testbet: simulated", "no setting is named 'testbet'; did you mean 'testbed'?"),
        ("trial: {duration_s: long}", "trial.duration_s is 'long'"),
    ],
)
def test_bad_settings_file_is_refused(text: str, hint: str, bench: Any) -> None:
    Path("perftrend.yaml").write_text(text)

    refused(bench.trending("--settings", "perftrend.yaml"), 2, hint)


def test_testbed_file_that_is_wrong_is_refused(bench: Any) -> None:
    Path("testbeds").mkdir()
    Path("testbeds/ours.yaml").write_text("colour: red")

    refused(bench.trending("--testbeds", "testbeds", "--testbed", "ours"), 2, "testbeds/ours.yaml: ")


def test_testbeds_that_fall_back_on_each_other_without_end_are_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing on PATH, so that neither testbed can be had."""
    Path("testbeds").mkdir()
    for name, other in (("one", "two"), ("two", "one")):
        Path(f"testbeds/{name}.yaml").write_text(
            "{description: ours, wiring: {driver: veth}, generator: {driver: embedded},"
            f" device: {{driver: embedded}}, driver_tag: X, link: {{pps: 1}}, fallback: {other}}}"
        )
    monkeypatch.setenv("PATH", "/nowhere")

    ended = bench.trending("--testbeds", "testbeds", "--testbed", "one")

    assert 4 == ended.exit_code
    assert "the program ip is missing" in ended.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("*** Tset Cases ***\n64b-mrr\n    [Tags]    MRR    64B\n    No Operation\n", "contains no test"),
        ("", "contains no test"),
        ("\0\1\2", "contains no test"),
    ],
)
def test_suite_without_a_test_is_refused(text: str, hint: str, bench: Any) -> None:
    """Robot Framework may say in lines of its own what it could not read."""
    Path("broken.robot").write_text(text)

    ended = bench.trending("--suites", "broken.robot")

    assert 2 == ended.exit_code
    assert ended.err.splitlines()[-1].startswith("perftrend: suites broken.robot: ")
    assert hint in ended.err
    assert not bench.archives.exists()


def test_suite_with_a_syntax_error_fails_by_name(bench: Any) -> None:
    Path("broken.robot").write_text(
        "*** Test Cases ***\n64b-1c-broken-mrr\n    [Tags]    MRR    64B    1C\n"
        "    FOR    ${x}\n    No Operation\n"
    )

    assert 4 == bench.trending("--suites", "broken.robot").exit_code
    assert {"64b-1c-broken-mrr": "failed"} == bench.outcomes()
    assert "FOR loop" in bench.report()["tests"][0]["reason"]


def test_store_below_a_file_cannot_be_opened(bench: Any) -> None:
    Path("file").write_text("")

    refused(
        bench.trending("--store", "file/perftrend.sqlite"), 3, "file/perftrend.sqlite: it cannot be opened"
    )


def test_store_that_is_no_database(bench: Any) -> None:
    Path("perftrend.sqlite").write_text("dear diary, " * 1000)

    refused(bench.trending(), 3, "perftrend.sqlite: this is not a database; name another file")


def test_store_of_a_newer_version(bench: Any) -> None:
    Store.open("perftrend.sqlite").close()
    with sqlite3.connect("perftrend.sqlite") as database:
        database.execute("UPDATE perftrend_version SET version_num = '9999'")
    database.close()

    refused(bench.trending(), 3, "version 9999, newer than")
    refused(bench.analysis(), 3, "upgrade perftrend")


def test_archive_that_cannot_be_written(bench: Any) -> None:
    Path("file").write_text("")

    refused(bench.trending("--archive", "file/archives"), 3, "file/archives")


def test_testbed_that_stays_in_use(bench: Any) -> None:
    with lock.hold("simulated", owner="another job"):
        ended = bench.trending("--wait", "0")

    refused(ended, 4, "testbed simulated is in use by another job")


def test_second_job_says_whom_it_waits_for(bench: Any) -> None:
    with lock.hold("simulated", owner="another job"):
        ended = bench.trending("--wait", "0.3")

    assert 4 == ended.exit_code
    assert "waiting for up to 0 s" in ended.err
    assert ended.err.splitlines()[-1].endswith("wait longer with --wait SECONDS")


def test_analysis_without_a_store_makes_none(bench: Any) -> None:
    refused(bench.analysis(), 3, "the file does not exist; ./run trending and ./run ingest create it")

    assert not Path("perftrend.sqlite").exists()


def test_analysis_of_a_testbed_that_was_never_measured(bench: Any) -> None:
    Store.open("perftrend.sqlite").close()

    refused(bench.analysis(), 2, "measure one first: ./run trending --testbed simulated")


def test_analysis_refuses_in_one_line_too(bench: Any) -> None:
    refused(bench.analysis("--repeat", "3"), 2, "unrecognized arguments: --repeat")


@pytest.mark.parametrize(
    ("comment", "hint"),
    [
        (b"Patch Set 1:\n\nperftest-simulated mrr", "no line requests trending on simulated; write "),
        (b"> trendingtest-simulated mrr", "no line requests trending on simulated"),
        (b"trendingtest-simulated $(reboot)", '"trendingtest-simulated $(reboot)" starts nothing: '),
        (b"trendingtest-simulated `id`; rm -rf /", "starts nothing"),
        (b"trendingtest-simulated mrr !64bNOT1c", "contains NOT, which is not allowed in an exclusion"),
        (b"trendingtest-simulated #nightly", "no test list is named '#nightly'; there are none"),
        (b"trendingtest-simulated mrr -- --duration 500", "--duration should be 0.1 to 60 seconds"),
        (
            b"trendingtest-simulated mrr -- --duration 1\ntrendingtest-simulated mrr",
            "are two jobs; write them in two comments",
        ),
        (
            b"trendingtest-simulated mrr\ntrendingtest-simulated --no-such",
            '"trendingtest-simulated --no-such" starts',
        ),
        (b"trendingtest-simulated " + b"x|" * 300, "is longer than 200 characters"),
        (b"trendingtest-simulated mrrAND65b", "no test matches the tags 'mrrAND65b"),
        (b"trendingtest-simulated \xff", "is not UTF-8 text in base64"),
        (b"x" * 60_000, "are too many for a comment"),
    ],
)
def test_bad_comment_is_refused(
    comment: bytes, hint: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GERRIT_EVENT_COMMENT_TEXT", base64.b64encode(comment).decode())

    refused(bench.trending(), 2, hint)


@pytest.mark.parametrize("text", ["trendingtest-simulated", "a", "$(id)", "====", "dHJlbm Rpbmc\u00e9"])
def test_comment_that_is_not_encoded_is_refused(
    text: str, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GERRIT_EVENT_COMMENT_TEXT", text)

    refused(bench.trending(), 2, "is not UTF-8 text in base64; set the job's comment-text parameter mode")


def test_help_is_no_error(bench: Any) -> None:
    ended = bench.trending("--help")

    assert (0, "") == (ended.exit_code, ended.err)
    assert "usage: ./run trending" in ended.out


def test_several_runs_under_one_build_number_are_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_NUMBER", "41")

    refused(bench.trending("--repeat", "2"), 2, "start more builds instead")
