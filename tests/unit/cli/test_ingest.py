"""An ingest job from its command line to its exit code."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import os
import re
import shutil
import signal
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.archive import fetch
from perftrend.cli import ingest
from perftrend.report.perftest import document
from perftrend.store import Store
from tests.doubles.jenkins import Job, running
from tests.unit.report.perftest.reports import compared

OUTPUTS = Path(__file__).parents[2] / "data" / "outputs"

PATCH_JOB = "perftrend-perftest-1n-veth"

Run = Callable[..., int]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Run the job in a folder of its own, with threads that read for themselves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ingest, "processes_for", lambda _: 0)
    before = signal.getsignal(signal.SIGTERM)

    def start(*arguments: str) -> int:
        try:
            return ingest.main(arguments)
        except SystemExit as end:
            return int(end.code or 0)

    yield start
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def archives(tmp_path: Path) -> Path:
    folder = tmp_path / "ci"
    for build in (1, 2, 3):
        (folder / "nightly" / str(build)).mkdir(parents=True)
        shutil.copy(OUTPUTS / "rf7.xml", folder / "nightly" / str(build) / "output.xml")
    return folder


def stored(folder: Path) -> list[str]:
    with Store.open(folder / "perftrend.sqlite") as store:
        return sorted(run.name for run in store.runs("2n-clx"))


def test_folder_of_archives_is_taken_once(
    run: Run, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 0 == run(str(archives))
    assert ["nightly/1", "nightly/2", "nightly/3"] == stored(tmp_path)
    assert "new: nightly/1..3\n" in capsys.readouterr().out

    assert 0 == run(str(archives))
    assert "known: nightly/1..3\n" in capsys.readouterr().out


# ---- per-patch tests


def patch_report(folder: Path, build: int, *, number: int = 8, **changes: object) -> Path:
    """Put the report of a per-patch test into a folder of archives, with an output of one of its rounds."""
    begin = compared({"ip4 mrr": (10e6, 9e6)}, number=number, job=PATCH_JOB, build=build)
    place = folder / PATCH_JOB / str(build)
    for part in ("report", "parent/1"):
        (place / part).mkdir(parents=True, exist_ok=True)
    (place / "asked.json").write_text("{}")
    shutil.copy(OUTPUTS / "rf7.xml", place / "parent" / "1" / "output.xml")
    file = place / "report" / "perftest.json"
    file.write_text(json.dumps(document(begin) | changes))
    return file


def stored_patch_tests(folder: Path) -> list[tuple[str, int | None, int | None, int, bool]]:
    with Store.open(folder / "perftrend.sqlite") as store:
        assert [] == store.runs("2n-clx") == store.runs("1n-veth")
        found = store.patch_tests.newest(10)
    return sorted((each.name, each.change, each.patch_set, each.rounds, each.ended) for each in found)


def test_per_patch_test_is_taken_once_by_its_change_and_patch_set(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = patch_report(tmp_path / "ci", 7)

    assert 0 == run("ci")
    assert f"new: {PATCH_JOB}/7\n" in capsys.readouterr().out
    file.touch()
    for _ in range(2):
        assert 0 == run("ci")
        assert f"known: {PATCH_JOB}/7\n" in capsys.readouterr().out
    assert [(f"{PATCH_JOB}/7", 1234, 3, 8, True)] == stored_patch_tests(tmp_path)


def test_per_patch_test_in_progress_is_taken_again_as_it_grows(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch_report(tmp_path / "ci", 7, number=6, ended=False)
    assert 0 == run("ci")
    assert f"in progress: {PATCH_JOB}/7\n" in capsys.readouterr().out
    assert [(f"{PATCH_JOB}/7", 1234, 3, 6, False)] == stored_patch_tests(tmp_path)

    later = patch_report(tmp_path / "ci", 7)
    os.utime(later, (2e9, 2e9))
    assert 0 == run("ci")
    assert f"new: {PATCH_JOB}/7\n" in capsys.readouterr().out
    assert [(f"{PATCH_JOB}/7", 1234, 3, 8, True)] == stored_patch_tests(tmp_path)


def test_per_patch_test_that_has_no_report_yet_is_no_run(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patch_report(tmp_path / "ci", 7).unlink()

    assert 0 == run("ci")
    assert f"missing: {PATCH_JOB}/7\n" in capsys.readouterr().out


@pytest.mark.parametrize("artifacts", [("report/perftest.json",), ()], ids=["report", "no report"])
def test_per_patch_test_on_jenkins_is_taken_by_its_report_alone(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], artifacts: tuple[str, ...]
) -> None:
    report = patch_report(tmp_path / "ci", 7).read_bytes()
    archive = f"archives/{PATCH_JOB}/7"
    rounds = tuple(
        f"{archive}/{side}/{number}/output.xml" for side in ("parent", "current") for number in (1, 2)
    )

    with running() as double:
        double.jobs[PATCH_JOB] = Job([7], artifacts=(*rounds, f"{archive}/asked.json", *artifacts))
        for name, content in {**dict.fromkeys(rounds, (OUTPUTS / "rf7.xml").read_bytes()),
                              **dict.fromkeys(artifacts, report)}.items():  # fmt: skip
            double.files[f"/job/{PATCH_JOB}/7/artifact/{name}"] = content
        assert 0 == run(f"jenkins+{double.url}")

    assert f"{'new' if artifacts else 'missing'}: {PATCH_JOB}/7\n" in capsys.readouterr().out
    assert [f"{PATCH_JOB}/7"] * len(artifacts) == [each[0] for each in stored_patch_tests(tmp_path)]


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"tests": 7}, "the report is broken at tests"),
        ({"change": 2**31}, "the report is broken at change"),
        ({"sentence": "a\0b"}, "the report is broken at sentence"),
        ({"parent": "../.."}, "the report is broken at parent"),
        ({"format": "perftrend-perftest-2"}, "of another format"),
    ],
    ids=str,
)
def test_broken_per_patch_test_is_named_and_the_others_are_taken(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, object], told: str
) -> None:
    for build in (6, 8):
        patch_report(tmp_path / "ci", build)
    patch_report(tmp_path / "ci", 7, **changes)

    assert 2 == run("ci")

    said = capsys.readouterr()
    assert f"broken: {PATCH_JOB}/7\n" in said.out
    assert re.search(rf"^perftrend: {PATCH_JOB}/7 is broken: \S+/7/report/perftest.json: .*{told}", said.err)
    assert [f"{PATCH_JOB}/6", f"{PATCH_JOB}/8"] == [each[0] for each in stored_patch_tests(tmp_path)]


def started_in(year: int) -> bytes:
    """Return an output of suites that ran in a year."""
    return (OUTPUTS / "rf7.xml").read_bytes().replace(b'start="2021-', b'start="%d-' % year)


def test_build_number_that_is_used_again_is_another_run(
    run: Run, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(str(archives))
    output = archives / "nightly" / "1" / "output.xml"
    for year, fate in ((2027, "new"), (2027, "known"), (2021, "known"), (2028, "new")):
        output.write_bytes(started_in(year))
        capsys.readouterr()

        assert 0 == run(str(archives))
        assert f"{fate}: nightly/1" in capsys.readouterr().out
    assert ["nightly/1", "nightly/1", "nightly/1", "nightly/2", "nightly/3"] == stored(tmp_path)


def test_archive_that_was_moved_holds_the_same_runs(
    run: Run, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(str(archives))
    archives.rename(tmp_path / "moved")
    capsys.readouterr()

    assert 0 == run(str(tmp_path / "moved"))
    assert "known: nightly/1..3\n" in capsys.readouterr().out
    assert 3 == len(stored(tmp_path))


def test_broken_build_is_named_and_the_others_are_taken(
    run: Run, archives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = archives / "nightly" / "2" / "output.xml"
    broken.write_bytes(broken.read_bytes()[:-30])
    (archives / "nightly" / "1" / "output.xml").unlink()

    assert 2 == run(str(archives))

    said = capsys.readouterr()
    assert ["nightly/3"] == stored(tmp_path)
    assert "missing: nightly/1\nbroken: nightly/2\n" in said.out
    assert re.search(r"^perftrend: nightly/2 is broken: .*2/output.xml: .*cut off", said.err, re.MULTILINE)


@pytest.mark.parametrize(
    ("arguments", "taken"),
    [
        (("--builds", "2..3"), ["nightly/2", "nightly/3"]),
        (("--builds", "..1"), ["nightly/1"]),
        (("--builds", "2"), ["nightly/2"]),
        (("--job", "night*", "--builds", "3.."), ["nightly/3"]),
        (("--since", "2100-01-01"), []),
        (("--since", "2000-01-01T00:00+01:00", "--builds", "1"), ["nightly/1"]),
    ],
)
def test_only_what_is_wanted_is_taken(
    arguments: tuple[str, ...], taken: list[str], run: Run, archives: Path, tmp_path: Path
) -> None:
    assert 0 == run(str(archives), *arguments)
    assert taken == stored(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["nowhere"], "source nowhere: no such file or folder"),
        ([], "no SOURCE is given and no jenkins.url is set"),
        (["ci", "--job", "weekly"], "no build was found that matches --job weekly"),
        (["."], "no build was found; a build is a folder JOB/NUMBER"),
        (["ci", "--builds", "3..1"], "'3..1' ends before it begins"),
        (["ci", "--builds", ".."], "'..' is not a range of builds"),
        (["ci", "--builds", "x"], "'x' is not a range of builds"),
        (["ci", "--since", "yesterday"], "'yesterday' is not a date"),
        (["ci", "--every", "0"], "--every is 0"),
        (["ci", "--every", "nan"], "--every is nan"),
        (["ci", "--every", "inf"], "--every is inf"),
        (["ci", "--follow", "--events"], "give one of the two"),
        (["ci", "--testbed-pattern", "("], "--testbed-pattern '('"),
        (["https://me:hidden@x/"], "must not contain a user or a password"),
        (["ftp://x/"], "cannot begin with ftp://"),
    ],
    ids=" ".join,
)
def test_bad_use_is_refused_in_one_line(
    arguments: list[str], hint: str, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if arguments != ["."]:
        (tmp_path / "ci").mkdir()
        shutil.copytree(OUTPUTS, tmp_path / "ci" / "nightly" / "1")

    assert 2 == run(*arguments)

    said = capsys.readouterr().err
    assert said.startswith("perftrend: ")
    assert 1 == said.count("\n")
    assert hint in said
    assert "hidden" not in said


def test_server_that_is_not_there_is_a_failed_service(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PERFTREND_JENKINS_ATTEMPTS", "1")

    assert 3 == run("http://127.0.0.1:1/ci/")
    assert "http://127.0.0.1:1/ci/: does not answer" in capsys.readouterr().err


def test_events_name_the_builds_to_take(
    run: Run,
    archives: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = [
        json.dumps({"job": "nightly", "build": 2}),
        json.dumps({"name": "nightly", "build": {"phase": "STARTED", "number": 1}}),
        json.dumps({"job": "night*", "build": 1}),
        "no JSON",
        json.dumps({"name": "nightly", "build": {"phase": "FINALIZED", "number": 3}}),
    ]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(lines).encode())))

    assert 2 == run(str(archives), "--events")

    assert ["nightly/2", "nightly/3"] == stored(tmp_path)
    assert "event 'no JSON': is not valid JSON" in capsys.readouterr().err


def test_followed_source_gives_what_comes(
    run: Run, archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each pause between two looks brings a build; the third one brings Ctrl-C."""
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append((seconds, stored(tmp_path)))
        if len(pauses) == 3:
            raise KeyboardInterrupt
        shutil.copytree(archives / "nightly" / "1", archives / "nightly" / str(3 + len(pauses)))

    monkeypatch.setattr(ingest, "pause", pause)

    assert 130 == run(str(archives), "--follow", "--every", "7")
    assert [(7, 3), (7, 4), (7, 5)] == [(seconds, len(builds)) for seconds, builds in pauses]


def test_followed_source_gives_a_broken_build_when_it_is_complete(
    run: Run, archives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer rests: the first look finds half of the output."""
    output = archives / "nightly" / "2" / "output.xml"
    whole = output.read_bytes()
    output.write_bytes(whole[:-30])
    looks = []

    def pause(seconds: float) -> None:
        looks.append(stored(tmp_path))
        if len(looks) == 2:
            raise KeyboardInterrupt
        output.write_bytes(whole)

    monkeypatch.setattr(ingest, "pause", pause)
    run(str(archives), "--follow")

    assert [["nightly/1", "nightly/3"], ["nightly/1", "nightly/2", "nightly/3"]] == looks


def test_token_goes_to_its_own_server_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"URL": "https://ci.example", "USER": "me", "TOKEN": "hidden"}.items():
        monkeypatch.setenv(f"PERFTREND_JENKINS_{name}", value)
    settings = ingest.Settings.load()

    access = ingest.access(settings, fetch.RateLimiter(1), "jenkins+https://other.example")

    assert ["https://ci.example"] == [url.rstrip("/") for url in access.credentials]
    assert "hidden" not in repr(access)


def test_no_thread_is_left(run: Run, archives: Path) -> None:
    before = threading.active_count()

    run(str(archives))

    assert before == threading.active_count()


def test_builds_of_a_jenkins_are_taken(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One build archived its output, one only what the Robot Framework plugin keeps; one still runs."""
    output = (OUTPUTS / "rf7.xml").read_bytes()
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        file.writestr("robot-plugin/output.xml", output)
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setenv("PERFTREND_JENKINS_USER", "me")
    monkeypatch.setenv("PERFTREND_JENKINS_TOKEN", "hidden")

    with running() as double:
        double.login = ("me", "hidden")
        double.jobs["nightly"] = Job([3, 2, 1], building={3})
        double.files["/job/nightly/2/artifact/archives/output.xml.gz"] = gzip.compress(output)
        double.files["/job/nightly/1/robot/report/*zip*/robot-plugin.zip"] = packed.getvalue()
        code = run(f"jenkins+{double.url}")

    said = capsys.readouterr()
    assert 0 == code, said.err
    assert "new: nightly/1..2\n" in said.out
    assert "hidden" not in said.out + said.err
    with Store.open(tmp_path / "perftrend.sqlite") as store:
        assert [3600.0] == [
            (second.started - first.started).total_seconds()
            for first, second in itertools.pairwise(store.runs("2n-clx"))
        ]


def test_jenkins_job_that_is_created_anew_loses_no_build(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NETRC", "/dev/null")
    with running() as double:
        artifact = "/job/nightly/1/artifact/archives/output.xml.gz"
        double.jobs["nightly"] = Job([1])
        double.files[artifact] = gzip.compress(started_in(2021))
        run(f"jenkins+{double.url}")

        double.jobs["nightly"] = Job([1], first_started_ms=double.jobs["nightly"].first_started_ms + 10**10)
        double.files[artifact] = gzip.compress(started_in(2027))
        for fate in ("new", "known"):
            capsys.readouterr()
            assert 0 == run(f"jenkins+{double.url}")
            assert f"{fate}: nightly/1\n" in capsys.readouterr().out

    assert ["nightly/1", "nightly/1"] == stored(tmp_path)
