"""The example, which has its own product."""

from __future__ import annotations

import pytest

from perftrend.cli import bisect
from perftrend.report.bisect import reporter
from perftrend.settings import Settings
from tests.unit.cli.bisect.conftest import Place
from tests.unit.report.bisect import reports


def test_example_searches_commits_of_its_own(place: Place) -> None:
    ended = place.run("--example", "--dry-run", "--tags", "mrrAND64bAND1cANDethip4*")

    assert 0 == ended.exit_code, ended.err
    assert "Would search 32 commits, 4 tests on simulated, about 40 minutes, " in ended.out
    assert "at most 58 minutes, plus building. Nothing was measured." in ended.out


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
        f"perftrend: --example creates the commits that it searches; omit {other.partition('=')[0]}\n"
        == ended.err
    )


def test_command_to_repeat_the_example_is_short() -> None:
    given = bisect.parser().parse_args(["--example", "--trial-duration", "2"])
    settings = Settings(testbed="1n-loopback", tags=("mrrAND64bAND1c",))

    assert "./run bisect --testbed 1n-loopback --trial-duration 2.0 --example" == reporter.command(
        given, settings, reports.state(3, []).range, testbed="1n-loopback"
    )


def test_command_to_repeat_a_bisection_searches_in_the_same_way() -> None:
    given = bisect.parser().parse_args(["--example", "--search", "binary"])

    assert "./run bisect --testbed 1n-veth --search binary --example" == reporter.command(
        given, Settings(), reports.state(3, []).range, testbed="1n-veth"
    )
