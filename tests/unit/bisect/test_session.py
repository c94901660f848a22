import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from perftrend import errors
from perftrend.bisect import (
    Adaptive,
    BisectOutcome,
    BisectSession,
    CsitHalving,
    OutcomeKind,
    Strategy,
    load,
    session,
)
from perftrend.bisect.session import Journal
from perftrend.model import BuildMeasurement, MetricSamples
from tests.unit.bisect.world import START, Made, World, line, names, stepped

STRATEGIES = (CsitHalving(), Adaptive())


class KilledError(Exception):
    """Stands for a kill: nothing of the session runs after it."""


class Mortal:
    """A world in which the process is killed at its n-th action, before or after that was done."""

    def __init__(self, world: World, file: Path, strategy: Strategy) -> None:
        self.world = world
        self.file = file
        self.strategy = strategy
        self.left = -1
        self.torn = 0

    def build(self, commit: str) -> Made:
        self._count()
        return self.world.build(commit)

    def measure(self, commit: str) -> BuildMeasurement:
        self._count()
        return self.world.measure(commit)

    def tell(self, _: object) -> None:
        self._count()

    def _count(self) -> None:
        self.left -= 1
        if self.left == 0:
            content = self.file.read_bytes()
            content = content[: len(content) - self.torn]
            self.file.write_bytes(content)
            # A measurement whose record is torn is made again, with the luck and at the time of the first.
            whole = content[: content.rfind(b"\n") + 1].splitlines()
            measured = [each for each in map(json.loads, whole) if each["record"] == "measured"]
            self.world.measured = [each["commit"] for each in measured]
            raise KilledError

    def session(self) -> BisectSession[Made]:
        return BisectSession(
            self.file, line(12), self.strategy, build=self.build, measure=self.measure, notify=self.tell
        )


def run(world: World, file: Path, size: int = 12, strategy: Strategy = STRATEGIES[0]) -> BisectOutcome:
    return BisectSession(file, line(size), strategy, build=world.build, measure=world.measure).run()


def world() -> World:
    return World(stepped(12, {5: 0.8}), broken={"c6", "c7"})


@given(
    strategy=some.sampled_from(STRATEGIES),
    kills=some.lists(some.tuples(some.integers(1, 9), some.integers(0, 60)), max_size=6),
)
def test_killed_session_goes_on_as_if_nothing_had_happened(
    strategy: Strategy, kills: list[tuple[int, int]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("killed")
    expected = run(world(), folder / "whole", strategy=strategy)
    mortal = Mortal(world(), folder / "killed", strategy)

    for mortal.left, mortal.torn in [*kills, (-1, 0)]:
        try:
            outcome = mortal.session().run()
        except KilledError:
            continue

    assert expected == outcome
    whole, killed = load(folder / "whole"), load(folder / "killed")
    assert [each.commit for each in whole.measured] == [each.commit for each in killed.measured]
    assert [each.values for each in whole.measured] == [each.values for each in killed.measured]
    assert whole.broken == killed.broken
    assert [step.commit for step in whole.steps] == [step.commit for step in killed.steps]


def test_nothing_recorded_is_done_again(tmp_path: Path) -> None:
    first, second = world(), world()
    outcome = run(first, tmp_path / "session")

    again = run(second, tmp_path / "session")

    assert outcome == again
    assert not second.built
    assert not second.measured


def test_session_moves_to_another_machine_as_a_file(tmp_path: Path) -> None:
    mortal = Mortal(world(), tmp_path / "here", CsitHalving())
    mortal.left = 8
    with pytest.raises(KilledError):
        mortal.session().run()
    moved = tmp_path / "there" / "session"
    moved.parent.mkdir()
    moved.write_bytes((tmp_path / "here").read_bytes())

    assert names([5, 6, 7, 8]) >= run(mortal.world, moved).culprits[0].commits
    assert load(moved).times_measured("c0") == 1


def test_session_of_another_range_or_strategy_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "session"
    run(world(), file)
    other = BisectSession(
        file, line(12), CsitHalving(repeats=2), build=world().build, measure=world().measure
    )

    with pytest.raises(errors.UsageError, match="differs in commits"):
        run(world(), file, size=11)
    with pytest.raises(errors.UsageError, match="differs in options"):
        other.run()


def test_commits_in_the_cache_are_known_from_the_beginning(tmp_path: Path) -> None:
    product = world()
    session = BisectSession(
        tmp_path / "session",
        line(12),
        CsitHalving(),
        build=product.build,
        measure=product.measure,
        cached={"c3", "elsewhere"},
    )

    session.run()

    assert load(tmp_path / "session").built["c3"] == 0
    assert "elsewhere" not in load(tmp_path / "session").built


def test_what_a_build_took_is_kept_and_not_what_was_waited_for_it(tmp_path: Path) -> None:
    """One that was built before, or beside a measurement, is there at once."""
    run(world(), tmp_path / "session")

    assert {Made.took_s} == set(load(tmp_path / "session").built.values())


def test_empty_range_is_refused_before_a_file_is_made(tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError, match="no commit"):
        run(world(), tmp_path / "session", size=0)

    assert not (tmp_path / "session").exists()


def test_error_of_a_testbed_leaves_a_session_that_goes_on(tmp_path: Path) -> None:
    def fail(_: str) -> BuildMeasurement:
        raise errors.TestbedError("no carrier")

    broken = BisectSession(tmp_path / "session", line(12), CsitHalving(), build=world().build, measure=fail)
    with pytest.raises(errors.TestbedError):
        broken.run()

    assert run(world(), tmp_path / "session").kind is OutcomeKind.FOUND


def test_two_processes_do_not_share_a_file(tmp_path: Path) -> None:
    with Journal(tmp_path / "session"), pytest.raises(errors.UsageError, match="another process"):
        Journal(tmp_path / "session")


def test_torn_last_line_is_dropped_and_others_are_not(tmp_path: Path) -> None:
    file = tmp_path / "session"
    file.write_bytes(b'{"a":1}\n{"b":2}\n{"c"')
    with Journal(file) as journal:
        journal.append({"d": 4})
    assert b'{"a":1}\n{"b":2}\n{"d":4}\n' == file.read_bytes()

    file.write_bytes(b'{"a":1}\n\x00\x00\n{"b":2}\n')
    with pytest.raises(errors.UsageError, match="line 2"):
        Journal(file)


@pytest.mark.parametrize(
    "content",
    [
        b"[]\n[]\n",
        b'{"record":"range"}\n',
        b'{"record":"range","format":"x"}\n{"record":"built"}\n',
    ],
)
def test_file_that_is_no_session_is_refused_by_name(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "session"
    file.write_bytes(content)

    with pytest.raises(errors.UsageError, match=str(file)):
        load(file)


def test_what_was_measured_is_kept_to_the_last_bit(tmp_path: Path) -> None:
    sampled = MetricSamples((0.1 + 0.2, math.nan), "s")
    seen = ("c1", 2, "others took 40 % of the core")
    measured = BuildMeasurement("c0", START, START, {"t": sampled}, {"u": 'why "so"\n'}, "archive/1", *seen)
    with Journal(tmp_path / "session") as journal:
        journal.append(session.of_range(line(1), CsitHalving()))
        journal.append(session.of_measured(measured))

    (known,) = load(tmp_path / "session").measured
    assert known.values["t"].samples[0] == 0.1 + 0.2
    assert math.isnan(known.values["t"].samples[1])
    assert (measured.failed, measured.started, "s") == (known.failed, known.started, known.values["t"].unit)
    assert seen == (known.against, known.variant, known.disturbed)
    assert json.loads((tmp_path / "session").read_text().splitlines()[1])["values"]["t"]["samples"][1] is None
