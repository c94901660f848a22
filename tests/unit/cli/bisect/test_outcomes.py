"""The outcome of a bisection, from its command line to its exit code."""

from __future__ import annotations

import pytest

from tests.products.printed import FAILING, SCRIPT, printing
from tests.unit.cli.bisect.conftest import WORKS, Place


def test_commit_that_made_it_slower_is_named(place: Place) -> None:
    place.product.range(*[100] * 5, *[90] * 4)

    ended = place.search()

    assert 1 == ended.exit_code, ended.err
    assert [[5]] == place.culprits()
    guilty = place.product.hashes[5][:12]
    verdict = ended.out.splitlines()[-1]
    assert verdict.startswith(f'perftrend verdict: {guilty} "Commit 5" made the only test slower by ')
    assert "Test result classification: regression" in ended.out


@pytest.mark.parametrize("strategy", ["adaptive", "documented"])
def test_both_strategies_find_it(place: Place, strategy: str) -> None:
    place.product.range(*[1e7] * 3, *[8e6] * 6)

    assert 1 == place.search("--strategy", strategy).exit_code
    assert ([[3]], strategy) == (place.culprits(), place.report()["strategy"])


def test_commit_that_made_it_faster_is_named_and_fails_nothing(place: Place) -> None:
    place.product.range(100, 100, 100, 120, 120)

    assert 0 == place.search().exit_code
    assert [[3]] == place.culprits()


def test_range_without_a_change_is_told_with_what_would_have_shown(place: Place) -> None:
    place.product.range(*[100] * 6)

    ended = place.search()

    assert 0 == ended.exit_code
    assert "No change above " in ended.out.splitlines()[-1]
    assert 0 < place.report()["smallest_visible"]["command"] < 0.05
    assert {place.product.hashes[0], place.product.hashes[-1]} == set(place.measured)


def test_range_of_one_commit_is_no_special_case(place: Place) -> None:
    place.product.range(100, 90)

    ended = place.search()

    assert (1, [[1]]) == (ended.exit_code, place.culprits())


def test_commits_that_do_not_build_are_gone_around(place: Place) -> None:
    place.product.range(100, 100, 100, 90, 90, 90, 90, broken=(4,))

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())


def test_smallest_set_is_named_where_broken_commits_hide_it(place: Place) -> None:
    place.product.range(100, 100, 100, 100, 90, 90, broken=(2, 3))

    ended = place.search()

    assert (1, [[2, 3, 4]]) == (ended.exit_code, place.culprits())
    assert "which one is unknown, because not all of them build." in ended.out
    logs = sorted(place.archive.glob("1/*.build.log"))
    assert logs
    assert "router.c:4: error" in logs[0].read_text()


def test_all_commits_between_may_be_broken(place: Place) -> None:
    place.product.range(100, 100, 100, 100, 90, broken=(1, 2, 3))

    assert 1 == place.search().exit_code
    assert [[1, 2, 3, 4]] == place.culprits()


@pytest.mark.parametrize(("end", "which"), [(0, "old"), (3, "new")])
def test_end_that_does_not_build_is_bad_input(place: Place, end: int, which: str) -> None:
    place.product.range(100, 100, 90, 90, broken=(end,))

    ended = place.search()

    assert 2 == ended.exit_code
    assert f"perftrend verdict: The {which} commit " in ended.out
    assert "router.c:4: error" in (place.bench.folder / "report" / "message.txt").read_text()
    assert 0 == place.measured.count(place.product.hashes[end])


def test_test_that_fails_from_a_commit_on_is_a_change_too(place: Place) -> None:
    place.product.range(100, 100, 100, "fails", "fails")

    ended = place.search()

    assert (1, [[3]]) == (ended.exit_code, place.culprits())
    assert "made the only test fail" in ended.out


def named(place: Place, *levels: str) -> list[str]:
    """Give the product a command that names its tests: of each commit a level and tests, or ``fails``."""
    file = place.bench.folder / "settings.yaml"
    file.write_text(file.read_text().replace("unit: ops", "unit: ops, prints: named"))
    history = place.product.history
    for number, level in enumerate(levels):
        files = {SCRIPT: _naming(*level.split()), "build.sh": WORKS}
        place.product.hashes.append(history.commit(f"Commit {number}", files))
    return place.product.hashes


def _naming(level: str, *tests: str) -> str:
    if level == "fails":
        return FAILING
    return printing(f"{test} {float(level) * (1 + noise / 1000)}" for test in tests for noise in (0, 1, -1))


@pytest.mark.parametrize(
    ("levels", "exit_code", "words"),
    [
        (("100 one two", "100 one two", "fails", "fails"), 1, "made 2 of 2 tests fail"),
        (("fails", "fails", "100 one two", "100 one two"), 0, "made 2 of 2 tests work"),
    ],
)
def test_command_that_fails_as_a_whole_is_a_failure_of_each_test(
    place: Place, levels: tuple[str, ...], exit_code: int, words: str
) -> None:
    named(place, *levels)

    ended = place.search()

    assert (exit_code, [[2]]) == (ended.exit_code, place.culprits())
    assert words in ended.out
    assert "one failed in " in ended.out
    assert "no route to host" not in ended.out, "the log has what the program said"


def test_test_that_vanishes_is_told_and_the_others_are_compared(place: Place) -> None:
    named(place, "100 one two", "100 one two", "90 one", "90 one")

    ended = place.search()

    assert (1, [[2]]) == (ended.exit_code, place.culprits())
    assert "two has no result in " in ended.out


@pytest.mark.parametrize("strategy", ["adaptive", "documented"])
def test_ends_without_a_test_in_common_are_not_said_to_be_the_same(place: Place, strategy: str) -> None:
    named(place, "100 one", "100 one", "100 two")

    ended = place.search("--strategy", strategy)

    assert 4 == ended.exit_code
    assert "Undecided, because no test was measured at both ends of the range." in ended.out.splitlines()[-1]


def test_product_that_cannot_be_measured_at_all_fails_the_job(place: Place) -> None:
    place.product.range("fails", "fails", "fails")

    ended = place.search()

    assert (2, [place.product.hashes[0], place.product.hashes[-1]]) == (ended.exit_code, place.measured)
    *_, output, said = ended.err.splitlines()
    assert output.startswith("    ")
    assert "nothing can be compared, because the command printed no numbers for " in said
    place.search()
    assert 4 == len(place.measured), "no failure is resumed"


def test_what_is_not_committed_does_not_count(place: Place) -> None:
    place.product.range(100, 100, 90, 90)
    (place.product.history.folder / "level").write_text("1")

    assert (1, [[2]]) == (place.search().exit_code, place.culprits())
    assert "1" == (place.product.history.folder / "level").read_text()


def test_branch_of_a_merge_is_looked_into_unless_it_is_not_to_be(place: Place) -> None:
    product = place.product
    product.range(100, 100)
    product.history.git("checkout", "--quiet", "-b", "side")
    product.range(100, 85, 85)
    guilty = product.hashes[3]
    product.history.git("checkout", "--quiet", "main")
    product.history.commit("Meanwhile", {"README": "more\n"})
    product.hashes.append(product.history.merge("side", "Merge the side"))
    merge = product.hashes[-1]
    product.range(85, 85)

    assert 1 == place.search().exit_code
    assert [guilty] == place.report()["culprits"][0]["commits"]

    assert 1 == place.search("--first-parent").exit_code
    assert [merge] == place.report()["culprits"][0]["commits"]


def test_regression_may_make_the_job_unstable(place: Place) -> None:
    place.product.range(100, 100, 80)
    settings = place.bench.folder / "settings.yaml"
    settings.write_text(settings.read_text() + "analysis: {regression: unstable}\n")

    assert 5 == place.search().exit_code
