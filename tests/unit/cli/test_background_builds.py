"""A bisection builds while it measures, unless that would disturb the measurement."""

from __future__ import annotations

from typing import Any

import pytest

from perftrend.bisect import runner
from perftrend.builds import BackgroundBuilds, Builds
from perftrend.cli import bisect
from tests.products.histories import History

SETTINGS = """
project:
  profile: command
  repository: {repository}
  parameters: {{keep: value, measure: cat value{remote}}}
bisect: {{builds_ahead: {allowed}}}
"""


@pytest.mark.parametrize(
    ("remote", "allowed", "ahead"),
    [("", 2, 0), (", remote: no", 2, 0), (", remote: yes", 2, 2), (", remote: yes", 0, 0)],
)
def test_builds_beside_measuring_only_where_that_is_done_elsewhere(
    bench: Any, monkeypatch: pytest.MonkeyPatch, remote: str, allowed: int, ahead: int
) -> None:
    """The command runs on this machine, whatever the testbed; only its profile can tell what it does."""
    history = History(bench.folder / "product")
    values = {"old": "100\n101\n99\n", "same": "101\n100\n99\n", "new": "80\n81\n79\n"}
    old, _, new = [history.commit(name, {"value": value}) for name, value in values.items()]
    told = SETTINGS.format(repository=history.folder, remote=remote, allowed=allowed)
    (bench.folder / "settings.yaml").write_text(told)
    asked: list[int] = []

    def noting(product: Builds, most: int) -> BackgroundBuilds:
        asked.append(most)
        return BackgroundBuilds(product, most)

    monkeypatch.setattr(runner, "BackgroundBuilds", noting)
    given = ["--settings", "settings.yaml", "--testbed", "simulated", "--old", old, "--new", new]

    ended = bench._job(bisect.main, given)

    assert 1 == ended.exit_code, ended.err
    assert [ahead] == asked
