"""Counting instructions, by the real Valgrind."""

from __future__ import annotations

import math
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.builds import Builds, valgrind
from perftrend.builds.valgrind import parse
from perftrend.errors import BuildError, TestbedError
from perftrend.model import Better
from tests.products.histories import History
from tests.unit.builds.conftest import Open

Require = Callable[[object, str], None]

WRITTEN = """desc: I1 cache:         32768 B, 64 B, 8-way associative
cmd: ./bench
events: Ir
fl=/home/ada/bench.c
fn=main
12 100
13 23
fl=/usr/include/string.h
fn=void copy(std::vector<int, std::allocator<int> >&)
7 1000
fl=/home/ada/bench.c
fn=main
20 7
fl=???
fn=???
0 5
summary: 1135
"""
WITH_CALLERS = """# callgrind format
events: Ir
summary: 1155

ob=(1) /home/ada/bench
fl=(1) /home/ada/bench.c
fn=(10) main
12 100
cfn=(12) lookup'main
calls=5 20
12 1000
+3 40

fn=(12)
20 1000

fn=(14) walk'main
* 7
cfn=(16) walk'2'walk'main
calls=1 30
-2 8

fn=(16)
30 8
"""
AWK = "awk 'BEGIN { while (i < %d) s += i++; print 1 }'"
"""A program whose instructions depend on the number."""


@pytest.fixture
def counting(history: History, opened: Open, require: Require) -> Callable[..., tuple[Builds, str, str]]:
    """Give what opens the builds of two commits, of which the second does more work."""
    require(shutil.which("valgrind"), "needs valgrind")

    def open_builds(
        first: str = AWK % 20_000, second: str = AWK % 30_000, **more: object
    ) -> tuple[Builds, str, str]:
        commits = [
            history.commit(subject, {"out": f"#!/bin/sh\n{script}\n"})
            for subject, script in (("First", first), ("Second", second))
        ]
        measure = {"command": ["sh", "./out"], "unit": "ms", **more}
        return opened(build=[], measure=measure), *commits

    return open_builds


def test_lines_of_a_function_are_added_up_in_all_files() -> None:
    assert {
        ("main",): 130,
        ("void copy(std::vector<int, std::allocator<int> >&)",): 1000,
        ("functions without symbols",): 5,
    } == parse(WRITTEN)


def test_callers_are_the_outer_functions_and_callees_do_not_count_twice() -> None:
    assert {
        ("main",): 140,
        ("main", "lookup"): 1000,
        ("main", "walk"): 7,
        ("main", "walk", "walk"): 8,
    } == parse(WITH_CALLERS)


@pytest.mark.parametrize(
    "text",
    [
        "", "\0", "12 34", "fn=\n12 34", "fn=f", "fn=f\n12", "fn=f\nx 5", "fn=f\n1 -5", "fn=f\n1 5.0",
        f"fn=f\n1 {'9' * 19}", "summary: 5", "fn=f\n1 5 6",
    ],
)  # fmt: skip
def test_what_is_no_count_is_ignored(text: str) -> None:
    assert 0 == parse(text).total()


def test_long_paths_of_long_names_are_read() -> None:
    callers = "'".join(f"{'x' * 1000}{number:02}" for number in range(16))

    [path] = parse(f"fn=main\n1 1\nfn=(7) {callers}\n2 5\n").keys() - {("main",)}

    assert 16 == len(path)


def test_build_that_fails_meanwhile_is_not_counted(
    counting: Callable[..., tuple[Builds, str, str]], said: list[str]
) -> None:
    builds, first, _ = counting()

    assert builds.compare_instructions(first, "0" * 40) is None

    assert any("instructions are not counted: commit 0000" in line for line in said), said


def test_long_and_unprintable_names_are_made_printable() -> None:
    assert {(f"{'x' * 60}…",): 1, ("a[31mb",): 2} == parse(f"fn={'x' * 1000}\n1 1\nfn=a\x1b[31mb\n1 2\n")


def test_more_work_is_more_instructions(counting: Callable[..., tuple[Builds, str, str]]) -> None:
    builds, first, second = counting()

    found = builds.compare_instructions(first, second)

    assert found is not None
    assert 0.1 < found.relative < 0.5
    assert found.spread < 0.001
    assert all(any(len(path) > 1 for path in side) for side in found.stacks)
    assert found.relative == pytest.approx(
        sum(found.stacks[1].values()) / sum(found.stacks[0].values()) - 1, abs=0.02
    )
    assert [] == list((builds.folder / "measuring").iterdir())


def test_same_work_is_the_same_number(counting: Callable[..., tuple[Builds, str, str]]) -> None:
    builds, first, second = counting(second=f"# another comment\n{AWK % 20_000}")

    found = builds.compare_instructions(first, second)

    assert found is not None
    assert abs(found.relative) < found.margin == 0.001


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ("exit 3", "instructions are not counted: ours at .*: measure failed: valgrind .* ended with 3; see"),
        (
            "echo no number",
            "instructions are not counted: with valgrind, line 1: 'no number' is not a number",
        ),
    ],
    ids=["fails", "prints no number"],
)
def test_command_that_does_not_work_with_valgrind_is_not_counted(
    counting: Callable[..., tuple[Builds, str, str]], said: list[str], second: str, reason: str
) -> None:
    builds, first, bad = counting(second=second)

    assert builds.compare_instructions(first, bad) is None

    (line,) = [each for each in said if "not counted" in each]
    assert "\n" not in line
    assert re.match(reason, line)


def test_slow_command_is_not_counted(
    counting: Callable[..., tuple[Builds, str, str]], said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    builds, first, second = counting()
    builds.measure(builds.build(first))
    monkeypatch.setattr("perftrend.builds.builder._LONGEST_COUNT_S", 0.0)

    assert builds.compare_instructions(first, second) is None

    assert any("not counted: a start takes" in line for line in said)


@pytest.mark.parametrize("how", [{"instructions": "no"}, {"remote": True}], ids=["refused", "remote"])
def test_profile_decides_whether_to_count(
    counting: Callable[..., tuple[Builds, str, str]], said: list[str], how: dict[str, object]
) -> None:
    builds, first, second = counting(**how)

    assert builds.compare_instructions(first, second) is None

    assert not any("instructions" in line for line in said)


def test_nothing_is_counted_without_valgrind(
    history: History, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = history.commit("First", {"out": "echo 1\n"})
    builds = opened(build=[], measure={"command": ["/bin/sh", "out"]})
    monkeypatch.setenv("PATH", str(tmp_path))

    assert builds.compare_instructions(commit, commit) is None


def test_instructions_are_measured_instead_of_what_is_printed(
    counting: Callable[..., tuple[Builds, str, str]],
) -> None:
    words = f"echo words and 12 numbers; {AWK % 20_000}"
    builds, first, second = counting(
        first=words, second=f"{words}; {AWK % 10}", instructions="measure", repetitions=2, unit=""
    )

    values = [builds.measure(builds.build(commit)).values["command"] for commit in (first, second)]

    assert [("instructions", Better.LOWER)] * 2 == [(each.unit, each.better) for each in values]
    assert [2, 2] == [len(each.samples) for each in values]
    assert all(max(each.samples) < 1.001 * min(each.samples) for each in values)
    assert values[1].samples[0] > 1.05 * values[0].samples[0]


def test_command_that_fails_while_it_is_counted_is_a_failed_test(
    counting: Callable[..., tuple[Builds, str, str]],
) -> None:
    builds, first, _ = counting(first="exit 3", instructions="measure")

    measured = builds.measure(builds.build(first))

    assert {} == measured.values
    assert "ended with 3" in measured.failed["command"]


def test_measuring_instructions_needs_valgrind(
    history: History, opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = history.commit("First", {"out": "echo 1\n"})
    builds = opened(build=[], measure={"command": ["/bin/sh", "out"], "instructions": "measure"})
    built = builds.build(commit)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(TestbedError, match="the program valgrind is missing on this machine; install it"):
        builds.measure(built)


@pytest.mark.parametrize(
    "trick",
    [
        "ln -s /etc/passwd .perftrend-valgrind.1",
        "mkfifo .perftrend-valgrind.1",
        "mkdir .perftrend-valgrind.1",
        "printf 'fn=f\\n1 %s\\n' 999999999999999999999 > .perftrend-valgrind.1",
    ],
    ids=["link", "pipe", "folder", "overflow"],
)
def test_files_that_the_program_makes_are_not_trusted(
    counting: Callable[..., tuple[Builds, str, str]], trick: str
) -> None:
    builds, first, second = counting(second=f"{trick}\n{AWK % 20_000}")

    found = builds.compare_instructions(first, second)

    assert found is not None
    assert not any("root" in each.function for each in found.functions)
    assert found.relative < 2.0


def test_large_files_end_the_counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valgrind, "_MOST_BYTES", 100)
    (tmp_path / ".perftrend-valgrind.1").write_bytes(b"x" * 60)
    (tmp_path / ".perftrend-valgrind.2").write_bytes(b"x" * 60)

    with pytest.raises(BuildError, match="more than 100 bytes"):
        valgrind.read_counts(tmp_path)


def test_hash_seed_is_the_same_in_each_counted_start(
    counting: Callable[..., tuple[Builds, str, str]], tmp_path: Path
) -> None:
    seeds = tmp_path / "seeds"
    script = f'echo "${{PYTHONHASHSEED-none}}" >> {seeds}; echo 1'
    builds, first, second = counting(first=script, second=script)

    assert "PYTHONHASHSEED" not in os.environ
    assert builds.compare_instructions(first, second) is not None
    counted = [each for each in seeds.read_text().split() if each != "none"]
    assert ["0"] * 6 == counted


@pytest.mark.parametrize("variants", [1, 3])
def test_command_that_waits_computes_for_a_small_part_of_its_time(
    counting: Callable[..., tuple[Builds, str, str]], variants: int
) -> None:
    builds, first, second = counting(first="sleep 0.2; echo 1", second="sleep 0.2; echo 2", variants=variants)

    found = builds.compare_instructions(first, second)

    assert found is not None
    assert 0 < found.user_share < 0.5
    assert variants == found.layouts
    assert not found.may_be_layout(0.03)


def test_use_of_the_core_by_a_short_command_is_unknown(
    counting: Callable[..., tuple[Builds, str, str]],
) -> None:
    builds, first, second = counting(first="echo 1", second="echo 2")

    found = builds.compare_instructions(first, second)

    assert found is not None
    assert math.isnan(found.user_share)
    assert not found.may_be_layout(0.03)
