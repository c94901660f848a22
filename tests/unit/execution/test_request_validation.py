"""What a request is checked for before anything starts, and what it comes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from robot.model import TagPatterns, Tags

from perftrend import builds
from perftrend.errors import UsageError
from perftrend.execution import estimate, request_validation
from perftrend.execution.request_validation import InvalidRequestError, LimitExceeded
from perftrend.measure import specification
from perftrend.measurement import LATENCY_LOADS
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.trigger import Trigger, parse

SUITES = Path(__file__).resolve().parents[2] / "suites"
REVISION = "f" * 40


def asked(line: str) -> Trigger:
    (found,) = parse(line)
    assert isinstance(found, Trigger)
    return found


def settings(**overrides: Any) -> Settings:
    return Settings.load(
        environment={}, overrides={name.replace("__", "."): v for name, v in overrides.items()}
    )


def plan(line: str, **overrides: Any) -> request_validation.RequestPlan:
    trigger = asked(line)
    return request_validation.plan(trigger, settings(testbed=trigger.testbed, **overrides), suites=SUITES)


def refusal(line: str, **overrides: Any) -> tuple[str, str]:
    with pytest.raises(InvalidRequestError) as refused:
        plan(line, **overrides)
    return refused.value.refusal.reason, refused.value.refusal.right_form


# ---- which tests


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("perftest-simulated", ()),
        ("perftest-simulated MRR 64b", ("mrr", "64b")),
        ("perftest-simulated mrr !64b !*acl*", ("mrrNOT64bNOT*acl*",)),
        ("perftest-simulated !64b", ("mrrAND64bAND1cNOT64b",)),
        ("perftest-simulated #rules", ("mrrAND*acl*", "pdr")),
        ("perftest-simulated #rules mrrAND*acl* !1c", ("mrrAND*acl*NOT1c", "pdrNOT1c")),
        ("perftest-simulated 64b !soak", ("64bNOTsoak",)),
        ("perftest-simulated 64b !*soakANDlong", ("64bNOT*soakANDlongNOTsoak",)),
        ("perftest-simulated 64b !*soakANDreconf*", ("64bNOT*soakANDreconf*NOTsoakNOTreconf",)),
    ],
)
def test_request_comes_to_tag_expressions(line: str, expected: tuple[str, ...], tmp_path: Path) -> None:
    file = tmp_path / "watched.yaml"
    file.write_text(yaml.safe_dump({"tests": [{}], "lists": {"rules": ["mrrAND*acl*", "pdr"]}}))

    assert expected == request_validation.expressions(
        asked(line), settings(analysis__specification=str(file))
    )


EXPRESSIONS = st.sampled_from(["a", "b*", "aANDb", "aORb", "aNOTb", "NOTa", "aANDbORc", "c"])
EXCLUDED = st.sampled_from(["a", "b*", "aANDb", "aORb", "bANDcORa"])
TESTS = [
    Tags(each) for each in ([], ["a"], ["b"], ["a", "b"], ["c"], ["a", "c"], ["b1", "c"], ["a", "b", "c"])
]


@given(st.lists(EXPRESSIONS, min_size=1, max_size=3), st.lists(EXCLUDED, max_size=3))
def test_one_expression_selects_what_including_and_excluding_do(
    include: list[str], exclude: list[str]
) -> None:
    trigger = Trigger("perftest", "simulated", include=tuple(include), exclude=tuple(exclude))

    together = TagPatterns(request_validation.expressions(trigger, Settings()))

    expected = [TagPatterns(include).match(test) and not TagPatterns(exclude).match(test) for test in TESTS]
    assert expected == [together.match(test) for test in TESTS]


def test_exclusion_that_no_expression_can_say_is_refused() -> None:
    reason, right = refusal("perftest-simulated mrr !64bNOT1c !2c")

    assert "'!64bNOT1c' contains NOT, which is not allowed in an exclusion" == reason
    assert "perftest-simulated mrr !2c" == right


def test_unknown_list_names_the_nearest(tmp_path: Path) -> None:
    file = tmp_path / "watched.yaml"
    file.write_text(yaml.safe_dump({"tests": [{}], "lists": {"nightly": "mrr", "weekly": "pdr"}}))

    reason, right = refusal("perftest-simulated #nigthly", analysis__specification=str(file))

    assert "no test list is named '#nigthly'; did you mean '#nightly'?" == reason
    assert "perftest-simulated TAGS" == right


def test_list_without_a_specification_is_refused() -> None:
    assert "no test list is named '#nightly'; there are none" == refusal("perftest-simulated #nightly")[0]


def test_tag_that_no_test_has_names_the_one_that_comes_close() -> None:
    reason, right = refusal("perftest-simulated mrrAND64bAND1cANDethip4-ip4bsae")

    assert reason.endswith("did you mean 'ethip4-ip4base' for 'ethip4-ip4bsae'?")
    assert "perftest-simulated mrrAND64bAND1cANDethip4-ip4base" == right


def test_reason_with_all_tags_is_cut() -> None:
    reason, right = refusal("perftest-simulated zzzzzz")

    assert 301 >= len(reason)
    assert "perftest-simulated TAGS" == right


def test_too_many_tests_are_refused_and_a_forgotten_mrr_is_guessed() -> None:
    reason, right = refusal("perftest-simulated 64bAND1c", trigger__maximum_tests=8)

    assert "it selects 16 tests, but a comment may start 8; select fewer by tags" == reason
    assert "perftest-simulated mrrAND64bAND1c" == right


# ---- what fits


def narrower(line: str, room_hours: float, **overrides: Any) -> str:
    found = plan(line, **overrides).narrower(room_hours * 3600)
    if found is None:
        return ""
    needed = plan(str(found.trigger), **overrides)
    assert needed.usual_s == found.usual_s <= room_hours * 3600
    assert set(needed.names) <= set(plan(line, **overrides).names)
    return str(found.trigger)


@pytest.mark.parametrize(
    ("line", "room_hours", "fits"),
    [
        ("perftest-simulated 64b -- --duration 60 --multiplicity 50", 2, "perftest-simulated 1cANDmrrAND64b"),
        ("perftest-simulated mrrAND1c -- --duration 60 --multiplicity 50", 4, "perftest-simulated mrrAND1c"),
        ("perftest-simulated ethip4-ip4base", 2, "perftest-simulated mrrANDethip4-ip4base"),
        ("perftest-simulated ethip4-ip4base", 0.4, "perftest-simulated 1cAND64bANDmrrANDethip4-ip4base"),
        (
            "perftest-simulated 1cANDmrr 1cANDpdr",
            1.2,
            "perftest-simulated 64bAND1cANDmrr 64bANDmrrAND1cANDpdr",
        ),
        ("perftest-simulated mrrAND1c", 0.001, ""),
        ("perftest-simulated mrrAND1cORpdr", 0.4, ""),
        ("perftest-simulated !*acl*", 0.001, ""),
    ],
)
def test_request_that_fits_selects_no_other_tests(line: str, room_hours: float, fits: str) -> None:
    assert fits == narrower(line, room_hours)


def test_refusal_of_a_limit_shows_what_fits() -> None:
    line = "perftest-simulated 64b"
    limit = LimitExceeded("it needs too much", room_s=2 * 3600)

    found = request_validation.refuse(asked(line), plan(line), limit)

    assert (line, "perftest-simulated 1cANDmrrAND64b") == (found.line, found.right_form)
    assert found.reason.startswith("it needs too much; the following needs about ")


def test_refusal_of_a_limit_without_room_shows_nothing() -> None:
    line = "perftest-simulated mrrAND64b"

    found = request_validation.refuse(asked(line), plan(line), LimitExceeded("nothing is left"))

    assert f'"{line}" starts nothing: nothing is left.' == str(found)


@pytest.mark.parametrize(
    ("earlier_s", "usual_s", "extent"),
    [
        ([], None, "duration unknown until a first job has ended"),
        ([240.0], 240.0, "about 4 minutes (as the last job took)"),
        ([300.0, 240.0, 900.0], 300.0, "about 5 minutes, at most 15 minutes (as the last 3 jobs took)"),
    ],
)
def test_duration_of_a_products_own_command_is_that_of_earlier_jobs(
    earlier_s: list[float], usual_s: float | None, extent: str
) -> None:
    plan = request_validation.plan_command(earlier_s)

    assert (usual_s, f"the product's own command, {extent}") == (plan.usual_s, str(plan))


def test_guess_that_is_still_too_many_is_not_made() -> None:
    assert "perftest-simulated TAGS" == refusal("perftest-simulated 64b", trigger__maximum_tests=7)[1]


def test_analysis_takes_no_tags() -> None:
    words = {"analysistest-{testbed}": "analysis"}
    (trigger,) = parse("analysistest-simulated mrr -- --dry-run", words=words)
    assert isinstance(trigger, Trigger)

    right = "Please write: analysistest-simulated -- --dry-run"
    with pytest.raises(InvalidRequestError, match=f"takes no tags.* {right}"):
        request_validation.plan(trigger, Settings(), suites=SUITES)


# ---- how long


MRR = "mrrAND64bAND1cANDethip4-ip4base"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # 10 trials of 1 s and a start of 5 s, and 15 s around them; each trial may be made five times.
        (f"trendingtest-simulated {MRR}", "1 test, about 1 minute, at most 2 minutes"),
        (
            f"trendingtest-simulated {MRR} -- --duration 60 --multiplicity 10",
            "1 test, about 11 minutes, at most 51 minutes",
        ),
        # Four bounds of 30 s; a search may take 720 s, and 5 s for the start.
        (
            "trendingtest-simulated ndrpdrAND64bAND1cANDethip4-ip4base",
            "1 test, about 3 minutes, at most 13 minutes",
        ),
        ("trendingtest-simulated soakAND64bAND1cANDethip4-ip4base", "1 test, about 31 minutes"),
        # Two bounds of 30 s, two trials of 10 s, and 5 s for the start; at most 720 s, and these 5 times.
        (
            "trendingtest-simulated reconfAND64bANDethip4-ip4base-addroutes",
            "1 test, about 2 minutes, at most 15 minutes",
        ),
        # 3 to 10 rounds, each with two builds: 13 times 30 s, at most 20 times 70 s.
        (f"perftest-simulated {MRR}", "1 test, about 8 minutes, at most 24 minutes, plus building"),
        # Usually 40 measurements, at most 150.
        (
            f"bisecttest-simulated abcdef1 {MRR}",
            "1 test, about 20 minutes, at most 175 minutes, plus building",
        ),
        ("trendingtest-simulated", "8 tests, about 3 minutes, at most 8 minutes"),
    ],
)
def test_request_is_told_as_tests_and_time(line: str, expected: str) -> None:
    assert expected == str(plan(line, perftest__maximum_rounds=10, bisect__maximum_measurements=150))


def test_starts_of_the_device_count() -> None:
    spec = specification.load("1n-veth")
    key = TraceKey.of(suite="s", test="t", metric="mrr")

    found = estimate.of_run([key], spec, Settings())

    assert (15 + 10 * 0.5 + 3 * 5, 15 + 5 * 10 * 0.5 + 3 * 5) == (found.usual_s, found.most_s)


def test_test_with_two_metrics_counts_once() -> None:
    spec = specification.load("simulated")
    keys = [TraceKey.of(suite="s", test="t", metric=metric) for metric in ("ndr", "pdr")]

    assert 15 + 725 == estimate.of_run(keys, spec, Settings()).most_s


def test_trials_of_latency_count() -> None:
    """Three trials of 10 s, each made up to five times."""
    spec = specification.load("simulated")
    keys = [TraceKey.of(suite="s", test="t", metric=metric) for metric in ("ndr", "pdr")]
    latencies = [TraceKey.of(suite="s", test="t", metric=metric) for metric in LATENCY_LOADS]

    without, found = (estimate.of_run(each, spec, Settings()) for each in (keys, [*keys, *latencies]))

    assert (30, 150) == (found.usual_s - without.usual_s, found.most_s - without.most_s)


def test_usual_binary_search_halves_down_to_the_width() -> None:
    """An eighth of the rate is reached by three trials for each of the two rates."""
    keys = [TraceKey.of(suite="s", test="t", metric=metric) for metric in ("ndr", "pdr")]
    asked = settings(search__strategy="binary", search__relative_width=0.125, search__final_duration_s=4)

    found = estimate.of_run(keys, specification.load("1n-veth"), asked)

    assert 15 + 5 + 2 * 3 * 4 == found.usual_s


@pytest.mark.parametrize(("minimum", "maximum", "builds"), [(3, 20, 23), (3, 3, 6), (5, 2, 4)])
def test_usual_comparison_takes_rounds_half_way_to_the_most(minimum: int, maximum: int, builds: int) -> None:
    spec = specification.load("simulated")
    key = TraceKey.of(suite="s", test="t", metric="mrr")
    asked = settings(perftest__minimum_rounds=minimum, perftest__maximum_rounds=maximum)

    assert builds * 30 == estimate.of_job("perftest", [key], spec, asked).usual_s


def test_building_counts_as_long_as_it_took_before(tmp_path: Path) -> None:
    """Two builds of 60 s, the median; and two of 300 s at most."""
    profile = builds.load("embedded-router")
    for number, (way, seconds) in enumerate(
        [(profile.hash, 40), (profile.hash, 300), (profile.hash, 60), ("another", 9000)]
    ):
        folder = tmp_path / "kept" / f"{number:040x}-{way}"
        folder.mkdir(parents=True)
        manifest = {"commit": f"{number:040x}", "profile": way, "took_s": seconds, "files": {}}
        (folder / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "kept" / f"{9:040x}-{profile.hash}").mkdir()
    chosen = {"project__profile": "embedded-router", "project__builds": str(tmp_path)}

    told = plan(f"perftest-simulated {MRR}", perftest__maximum_rounds=10, **chosen)

    assert "1 test, about 10 minutes, at most 34 minutes" == str(told)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(1, "1 minute"), (61, "2 minutes"), (10_800, "180 minutes"), (10_801, "4 hours"), (90_000, "25 hours")],
)
def test_time_is_told_as_people_do(seconds: float, expected: str) -> None:
    assert expected == estimate.format_duration(seconds)


# ---- the hash


class History:
    """Commits in a row, by their first letters."""

    def __init__(self, *commits: str) -> None:
        self.commits = commits

    def resolve(self, text: str) -> str:
        found = [each for each in self.commits if each.startswith(text)]
        if len(found) != 1:
            raise UsageError(f"no commit begins with {text!r}" if not found else f"{text!r} is ambiguous")
        return found[0]

    def is_ancestor(self, old: str, new: str) -> bool:
        return self.commits.index(old) < self.commits.index(new)


HISTORY = History("abcdef1" + "0" * 33, REVISION, "bbbbbbb" + "0" * 33, "ccccccc1", "ccccccc2")


def test_older_commit_is_good() -> None:
    request_validation.check_hash(asked("bisecttest-2n-clx abcdef1 mrr"), REVISION, HISTORY)


@pytest.mark.parametrize(
    ("old", "reason"),
    [
        ("fffffff", "'fffffff' is the patch set itself; write the hash of an older commit"),
        ("bbbbbbb", "'bbbbbbb' is not an ancestor of this patch set; write the hash of one"),
        ("ccccccc", "'ccccccc' is ambiguous"),
        ("ddddddd", "no commit begins with 'ddddddd'"),
        (
            "1234567",
            "'1234567' is not a commit of the repository, but looks like the number of a change; "
            "write the hash of its commit",
        ),
    ],
)
def test_hash_that_a_bisection_cannot_begin_at_is_refused(old: str, reason: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        request_validation.check_hash(asked(f"bisecttest-2n-clx {old} mrr"), REVISION, HISTORY)

    assert reason == refused.value.refusal.reason
    assert "bisecttest-2n-clx HASH mrr" == refused.value.refusal.right_form
