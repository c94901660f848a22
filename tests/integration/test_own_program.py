"""A program of one's own, measured by the three jobs without a settings file, in a checkout.

The program prints made-up numbers. They depend on the commit and on how often it was started, so that no
result depends on how fast this machine is.
"""

from __future__ import annotations

import json
import os
import pty
import random
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.integration.servers.environment import inherited
from tests.products.histories import History

Require = Callable[[object, str], None]

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.rst").read_text(encoding="utf-8")
MAKEFILE = "bench: bench.sh\n\tcp bench.sh bench\n\tchmod +x bench\n"
BENCH = """#!/bin/sh
[ "$1" = --repeat ] || {{ echo "usage: bench --repeat N"; exit 2; }}
printf . >> {starts}
sed -n "$(( $(wc -c < {starts}) % {lines} + 1 ))p" rates | tr ' ' '\\n' | head -n "$2"
"""
LINES, SAMPLES = 200, 9
COMMITS, SLOW = 12, 8
PROGRAM = ["--build", "make bench", "--measure", "./bench --repeat 5", "--unit", "ms"]
SUBJECT = "Cache the tables"
SCRIPT = '#!/bin/sh\njob=$1; shift; exec {python} -P -m "perftrend.cli.$job" "$@"\n'
"""Starts a job as ``./run`` does, in the environment of the tests."""


def durations(level: float) -> str:
    """Return lines of durations; the noise is of one per cent between lines, and the same for each level."""
    noise = random.Random(1)  # noqa: S311 - noise, no secret
    levels = [level * noise.gauss(1, 0.01) for _ in range(LINES)]
    return "".join(
        f"{' '.join(f'{each * noise.gauss(1, 0.002):.4f}' for _ in range(SAMPLES))}\n" for each in levels
    )


@dataclass
class Parser:
    """A home with a checkout of a program, of which one commit is slower."""

    home: Path
    hashes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.history = History(self.home / "parser")
        run = self.home / "perftrend" / "run"
        run.parent.mkdir()
        run.write_text(SCRIPT.format(python=sys.executable))
        run.chmod(0o755)

    @property
    def folder(self) -> Path:
        return self.history.folder

    @property
    def files(self) -> Path:
        """Where the jobs write."""
        return self.folder / ".git" / "perftrend"

    def commit_all(self) -> None:
        bench = BENCH.format(starts=self.home / "starts", lines=LINES)
        for number in range(COMMITS):
            files = {
                "Makefile": MAKEFILE,
                "bench.sh": bench,
                "number": f"{number}\n",
                ".gitignore": "bench\n",
            }
            rates = durations(110 if number >= SLOW else 100)
            subject = SUBJECT if number == SLOW else f"Commit {number}"
            self.hashes.append(self.history.commit(subject, {**files, "rates": rates}))
        self.history.git("tag", "v2.0", self.hashes[0])
        self.history.git("tag", "--annotate", "--message", "words", "v2.1")

    @property
    def starts(self) -> int:
        """How often the program was started."""
        starts = self.home / "starts"
        return starts.stat().st_size if starts.exists() else 0

    def environment(self, **more: str) -> dict[str, str]:
        own = {"HOME": str(self.home), "PYTHONPATH": str(ROOT), "PERFTREND_TESTBED": "simulated"}
        return inherited() | own | more

    def run(
        self, job: str, *arguments: str, program: Sequence[str] = PROGRAM, place: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.home / "perftrend" / "run", job, *arguments, *program],
            cwd=place or self.folder, env=self.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip

    def report(self, name: str) -> Any:
        return json.loads((self.files / "report" / name).read_text())

    def changed(self, place: Path | None = None) -> str:
        """Return what git sees in a checkout, ignored files included."""
        return self.history.git("-C", str(place or self.folder), "status", "--porcelain", "--ignored")

    def commit_work(self) -> None:
        """Commit a version, and another one that is slower because a loop of it is longer."""
        bench = BENCH.format(starts=self.home / "starts", lines=LINES)
        for level, turns in ((100, 2000), (110, 3000)):
            work = f"i=0; while [ $i -lt {turns} ]; do i=$((i + 1)); done\n"
            files = {"Makefile": MAKEFILE, "bench.sh": bench + work, "rates": durations(level)}
            self.hashes.append(self.history.commit(f"{turns} turns", files))


@pytest.fixture
def parser(tmp_path: Path) -> Parser:
    parser = Parser(tmp_path)
    parser.commit_all()
    return parser


def names_of_testbeds(text: str) -> set[str]:
    """Return the testbeds in a text, except in the names of other jobs that this one waited for."""
    text = re.sub(r"this machine is in use by .*", "", text)
    return set(re.findall(r"\b(?:1n-\w+|simulated|this-machine|testbed)\b", text))


# ---- as the README shows it


def commands_of(section: str) -> list[str]:
    text = README.partition(f"{section}\n{'-' * len(section)}\n")[2].partition("\n\n.. ")[0]
    return [
        line.removeprefix("    $ ") for line in text.split("\n-----")[0].splitlines() if line[:6] == "    $ "
    ]


@pytest.mark.slow
def test_readme_works_as_printed(parser: Parser) -> None:
    commands = commands_of("Bisect your own program in a minute")
    assert ["cd", "~/perftrend/run bisect", "~/perftrend/run perftest", "git bisect", "git bisect"] == [
        " ".join(command.split()[: 1 if command[:3] == "cd " else 2]) for command in commands
    ]
    shown = ""
    for number, command in enumerate(commands[1:]):
        ended = subprocess.run(
            ["bash", "-c", f"{commands[0]} && {command}"],
            env=parser.environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        shown += ended.stdout + ended.stderr
        # The newest commit is as slow as its parent, which few rounds need not show.
        assert ended.returncode == (1 if number == 0 else 0), ended.stdout + ended.stderr
        if number == 0:
            culprit = f'{parser.hashes[SLOW][:12]} "{SUBJECT}" made the only test worse by '
            assert f"perftrend verdict: {culprit}" in ended.stdout
    assert f"{parser.hashes[SLOW]} is the first bad commit" in shown
    assert "" == parser.changed()
    assert set() == names_of_testbeds(shown)


# ---- what a difference is made of


@pytest.mark.slow
@pytest.mark.parametrize(("job", "document"), [("bisect", "bisection.json"), ("perftest", "perftest.json")])
def test_work_of_the_slower_side_is_reported(
    tmp_path: Path, require: Require, job: str, document: str
) -> None:
    require(shutil.which("valgrind"), "needs valgrind")
    parser = Parser(tmp_path)
    parser.commit_work()
    before, after = (
        [commit[:12] for commit in parser.hashes] if job == "bisect" else ("its parent", "The patch")
    )

    ended = parser.run(job, "--old", "HEAD~1", "--new", "HEAD")
    refused = parser.run(job, "--old", "HEAD~1", "--new", "HEAD", "--parameter", "instructions=no")

    assert [1, 1] == [ended.returncode, refused.returncode], ended.stderr + refused.stderr
    sentence = re.compile(rf"{after} executes [0-9.]+ % more instructions than {before}: ")
    assert [True, False] == [bool(sentence.search(each.stdout)) for each in (ended, refused)]
    assert not any(sentence.match(note) for note in parser.report(document)["notes"])


# ---- names, worktrees and files


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), [("v2.0", "main"), ("HEAD~11", "v2.1"), ("main", "v2.0")])
def test_bisection_between_names_finds_the_commit(parser: Parser, old: str, new: str) -> None:
    ended = parser.run("bisect", "--old", old, "--new", new)

    assert 1 == ended.returncode, ended.stderr
    report = parser.report("bisection.json")
    assert [[parser.hashes[SLOW]]] == [each["commits"] for each in report["culprits"]]
    assert (parser.hashes[0], parser.hashes[-1], None) == (report["old"], report["new"], report["testbed"])
    swapped = f"perftrend: --old {old} is newer than --new {new}; they are used the other way round"
    assert (old == "main") is (swapped in ended.stderr.splitlines())
    assert "" == parser.changed()
    assert set() == names_of_testbeds(ended.stdout + ended.stderr)
    page, message = ((parser.files / "report" / name).read_text() for name in ("index.html", "message.txt"))
    assert set() == names_of_testbeds(message + re.sub("<[^>]*>", "", page))
    assert f"./run bisect --old {parser.hashes[0]} --new {parser.hashes[-1]} " in message
    assert "--measure './bench --repeat 5' --build 'make bench' --unit ms" in message


@pytest.mark.parametrize("base", [[], ["--old", "HEAD~3"], ["--old", "v2.0"]])
def test_per_patch_test_in_a_worktree_writes_into_the_repository_alone(
    parser: Parser, tmp_path: Path, base: list[str]
) -> None:
    worktree = tmp_path / "worktree"
    parser.history.git("worktree", "add", "--quiet", str(worktree), f"main~{COMMITS - 1 - SLOW}")

    ended = parser.run("perftest", "--new", "HEAD", *base, place=worktree)

    assert 1 == ended.returncode, ended.stderr
    assert "perftrend verdict: The only test is worse by " in ended.stdout
    report = parser.report("perftest.json")
    older = {"v2.0": 0, "HEAD~3": SLOW - 3}.get(base[-1] if base else "", SLOW - 1)
    assert (parser.hashes[older], parser.hashes[SLOW], None) == (
        report["parent"], report["patch"], report["testbed"]
    )  # fmt: skip
    assert ["", ""] == [parser.changed(), parser.changed(worktree)]
    assert set() == names_of_testbeds(ended.stdout + ended.stderr)


@pytest.mark.slow
def test_git_leads_the_search_in_a_worktree(parser: Parser, tmp_path: Path) -> None:
    worktree = tmp_path / "worktree"
    parser.history.git("worktree", "add", "--quiet", str(worktree), "main~2")
    parser.history.git("-C", str(worktree), "bisect", "start", "v2.1", "v2.0")

    run = ["git", "bisect", "run", str(parser.home / "perftrend" / "run"), "bisectrun", *PROGRAM]
    ended = subprocess.run(
        run, cwd=worktree, env=parser.environment(), capture_output=True, text=True, check=False
    )

    assert 0 == ended.returncode, ended.stdout + ended.stderr
    assert f"{parser.hashes[SLOW]} is the first bad commit" in ended.stdout
    assert (parser.files / "archives" / "perftrend-bisectrun-command").is_dir()
    assert ["", ""] == [parser.changed(), parser.changed(worktree)]
    assert set() == names_of_testbeds(ended.stdout + ended.stderr)


JOBS = [
    ("bisect", ["--old", "{0}", "--new", "{1}"], 2),
    ("perftest", ["--old", "{0}", "--new", "{1}"], 2),
    ("bisectrun", ["--old", "{0}", "--new", "{1}"], 202),
]


@pytest.mark.parametrize(("job", "ends", "code"), JOBS)
@pytest.mark.parametrize("name", ["v9.9", "HEAD~99", "0123456789"])
def test_name_that_is_nothing_is_refused_in_one_line(
    parser: Parser, job: str, ends: list[str], code: int, name: str
) -> None:
    ended = parser.run(job, *(each.format(name, "main") for each in ends))

    assert (code, "", 1) == (ended.returncode, ended.stdout, len(ended.stderr.splitlines()))
    assert name in ended.stderr
    assert ("", 0) == (parser.changed(), parser.starts)


@pytest.mark.parametrize(("job", "_", "code"), JOBS)
@pytest.mark.parametrize("option", ["--old=--all", "--new=-1"])
def test_option_in_place_of_a_name_is_refused(
    parser: Parser, job: str, _: object, code: int, option: str
) -> None:
    ended = parser.run(job, "--old=v2.0", "--new=main", option)

    assert (code, 1) == (ended.returncode, len(ended.stderr.splitlines()))
    assert f"{option.partition('=')[2]!r} is not a commit of " in ended.stderr


# ---- a command that prints no numbers


@dataclass(frozen=True)
class Silent:
    """A command that prints no numbers."""

    command: str
    reason: str
    output: tuple[str, ...]
    starts: int


SILENT = [
    Silent("echo starting; echo ready", "line 1: 'starting' is not a number; ", ("starting", "ready"), 1),
    Silent("true", "it printed no number; ", (), 1),
    Silent("echo 'cannot open corpus' >&2; exit 3", " ended with 3; ", ("cannot open corpus",), 2),
]


@pytest.mark.parametrize(("job", "ends", "code"), JOBS)
@pytest.mark.parametrize("silent", SILENT, ids=lambda silent: silent.command)
def test_command_without_numbers_ends_the_job_at_once(
    parser: Parser, job: str, ends: list[str], code: int, silent: Silent
) -> None:
    parser.history.git("checkout", "--quiet", "--detach", "main~3")
    measure = f"printf . >> {parser.home}/starts; {silent.command}"

    ended = parser.run(job, *(each.format("v2.0", "main") for each in ends), program=["--measure", measure])

    assert code == ended.returncode
    *before, said = ended.stderr.splitlines()
    assert said.startswith("perftrend: nothing can be compared, because the command printed no numbers for ")
    assert silent.reason in said
    assert [f"    {line}" for line in silent.output] == before[len(before) - len(silent.output) :]
    assert 1 == (ended.stdout + ended.stderr).count(silent.reason)
    # A start is repeated if this machine disturbed it.
    starts = parser.starts - (ended.stdout + ended.stderr).count("measuring again")
    # The order of a per-patch test is random: if the patch comes first, the parent is tried, too.
    assert starts in {silent.starts, 2 if job == "perftest" else silent.starts}


def test_crash_at_the_new_end_is_the_change(parser: Parser) -> None:
    """Although it prints no number there, it did so at the old end."""
    crashing = parser.history.commit("Break it", {"rates": ""})

    ended = parser.run("perftest", "--new", "HEAD")

    assert 1 == ended.returncode, ended.stderr
    assert "perftrend verdict: The only test fails with the patch." in ended.stdout
    assert crashing == parser.report("perftest.json")["patch"]


# ---- a narrow terminal


@pytest.mark.parametrize(
    ("job", "ends"),
    [("perftest", ["--new", "v2.1", "--old", "v2.0"]), ("bisect", ["--old", "v2.0", "--new", "v2.1"])],
)
@pytest.mark.slow
def test_tables_fit_a_narrow_terminal(parser: Parser, job: str, ends: list[str]) -> None:
    test = "parse-large-documents-with-attributes"
    measure = ["--measure", f"./bench --repeat 5 | sed 's/^/{test} /'", "--parameter", "prints=named"]
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [parser.home / "perftrend" / "run", job, *ends, *PROGRAM, *measure],
        cwd=parser.folder, env=parser.environment(COLUMNS="60"), stdout=theirs, stderr=subprocess.PIPE,
    )  # fmt: skip
    os.close(theirs)
    shown = read_all(ours)
    _, errors = process.communicate()

    assert 1 == process.returncode, errors
    lines = shown.splitlines()
    table = lines[lines.index("test") :]
    table = table[: table.index("")]
    assert max(map(len, table)) <= 60
    assert test in table
    assert re.search(r"\bworse$", table[-1] + "\n" + table[-2], re.MULTILINE)


def read_all(terminal: int) -> str:
    """Return what is written to a terminal, until its other end is closed."""
    parts = []
    try:
        while part := os.read(terminal, 65536):
            parts.append(part)
    except OSError:  # how Linux reports the end
        pass
    finally:
        os.close(terminal)
    return b"".join(parts).decode().replace("\r\n", "\n")
