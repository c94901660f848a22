"""The command lines that the bisect job refuses, and its exit codes."""

from __future__ import annotations

import pytest

from perftrend.cli import bisect
from tests.unit.cli.bisect.conftest import Place
from tests.unit.report.bisect import reports


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--new {1}", "give the commits to search: --old COMMIT with --new COMMIT, or with --change N"),
        ("--old {0}", "give the commits to search"),
        ("--old {0} --new {1} --change 3", "give the commits to search"),
        ("--old {0} --change 3", "gerrit.url is not set"),
        ("--old deadbeef --new {1}", "deadbeef does not exist in the repository"),
        ("--old v9.9 --new {1}", "'v9.9' is not a commit of "),
        ("--old=--all --new {1}", "'--all' is not a commit of "),
        ("--old {1} --new {1}", "old and new are the same commit"),
        ("--old {1} --new other", "is not an ancestor of"),
        (
            "--old {1} --new side",
            "give a commit of its history, such as --old {0:.12}, where their branches part",
        ),
        ("--old {0} --new {1} --repository shallow", "has only the newest part of its history"),
        ("--old {0} --new {1} --profile none", "none"),
        ("--old {0} --new {1} --repository nowhere", "cannot fetch from"),
        ("--old {0} --new {1} --confidence 2", "bisect.confidence is 2.0"),
        ("--old {0} --new {1} --measurements 0", "0 is less than 1"),
        ("--old {0} --new {1} --strategy guess", "invalid choice: 'guess'"),
    ],
)
def test_bad_input_is_told_in_one_line(place: Place, arguments: str, message: str) -> None:
    place.product.range(100, 100, 90)
    folder = place.bench.folder
    place.product.history.git(
        "clone", "--quiet", "--depth=1", f"file://{folder / 'product'}", f"{folder / 'shallow'}"
    )
    for how in (["-b", "side", place.product.hashes[0]], ["--orphan", "other"]):
        place.product.history.git("checkout", "--quiet", *how)
        place.product.history.commit("Elsewhere", {"elsewhere": "x"})
    words = arguments.format(*place.product.hashes).split()

    ended = place.run(*words)

    assert ended.exit_code in {2, 3}
    assert message.format(*place.product.hashes) in ended.err
    assert 1 == len(ended.err.splitlines())
    assert [] == place.measured


@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        ("slower", 1),
        ("hidden", 1),
        ("failing", 1),
        ("nothing", 0),
        ("undecided", 4),
        ("not built", 2),
    ],
)
def test_only_a_regression_that_was_found_fails_the_job(kind: str, exit_code: int) -> None:
    assert exit_code == bisect.exit_code(reports.KINDS[kind])


def test_names_of_git_are_searched_and_swapped_ends_are_put_right(place: Place) -> None:
    place.product.range(100, 100, 90)
    place.product.history.git("tag", "v2.0", place.product.hashes[0])

    ended = place.run("--old", "HEAD", "--new", "v2.0")

    assert (1, [[2]]) == (ended.exit_code, place.culprits())
    [said] = [each for each in ended.err.splitlines() if "HEAD" in each]
    assert "perftrend: --old HEAD is newer than --new v2.0; they are used the other way round" == said
    old, *_, new = place.product.hashes
    assert f"--old {old} --new {new} " in place.report()["command"]
