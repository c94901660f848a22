"""Bisections of what others released: small projects of the package index, by the profile ``command``.

Which release is slower is known from outside: both releases beside a change are measured here as well, in
turn and without perftrend.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_bisection import Job
from tests.products.releases import LackingError, ReleasedProduct, fetched, pinned

BENCHES = Path(__file__).parents[1] / "products" / "benches"
SETTINGS = """
project:
  profile: command
  repository: {repository}
  parameters:
    measure: env PYTHONPATH={{artifacts}}/{packages} {{python}} {bench}
    unit: {unit}
    better: {better}
"""
DIRECT_PAIRS, STUDENT_99 = 8, 3.5
"""So many pairs are measured directly; Student's distribution with one degree of freedom less, two-sided."""


@dataclass(frozen=True)
class Project:
    """A project of the package index, and how it is measured."""

    name: str
    bench: str
    unit: str
    better: str
    packages: str = "."
    """Where its packages are."""


WCWIDTH = Project("wcwidth", "wcwidth_text.py", "x", "lower")
ATTRS = Project("attrs", "attrs_classes.py", "1", "higher", "src")
SQLPARSE = Project("sqlparse", "sqlparse_statement.py", "x", "lower")


@dataclass(frozen=True)
class Search:
    """A bisection of releases, and what came out."""

    project: Project
    product: ReleasedProduct
    ended: subprocess.CompletedProcess[str]
    report: Any

    @property
    def sentence(self) -> str:
        return self.ended.stdout.splitlines()[-1]

    def named(self) -> dict[str, Any]:
        """Return what each named release did to the only test."""
        versions = {commit: version for version, commit in self.product.commits.items()}
        named = {", ".join(versions[commit] for commit in each["commits"]): each for each in self.culprits}
        return {version: each["tests"][0] for version, each in named.items()}

    @property
    def culprits(self) -> list[Any]:
        return list(self.report["culprits"])

    def measure_directly(self, version: str, folder: Path) -> tuple[float, float]:
        """Measure a release and the one before it in turn; return the interval of the difference."""
        versions = list(self.product.commits)
        pair = [versions[versions.index(version) - 1], version]
        for each in pair:
            checkout = ["worktree", "add", "--quiet", "--force", "--detach", str(folder / each)]
            self.product.history.git(*checkout, self.product.commits[each])
        differences = []
        for number in range(DIRECT_PAIRS):
            level = {each: self._level(folder / each) for each in (pair if number % 2 else pair[::-1])}
            differences.append(math.log(level[pair[1]] / level[pair[0]]))
        middle = statistics.fmean(differences)
        error = STUDENT_99 * statistics.stdev(differences) / math.sqrt(DIRECT_PAIRS)
        return math.expm1(middle - error), math.expm1(middle + error)

    def _level(self, checkout: Path) -> float:
        printed = subprocess.run(
            [sys.executable, BENCHES / self.project.bench],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout / self.project.packages)},
            capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip
        return statistics.geometric_mean(map(float, printed.split()))


Bisected = Callable[[Project, str, str], Search]
Record = Callable[[str, object], None]


@pytest.fixture
def bisected(tmp_path: Path, require: Callable[[object, str], None]) -> Bisected:
    """Bisect the releases of a project, from the first to the last; anew at each call."""
    folders = (tmp_path / str(number) for number in itertools.count(1))

    def search(project: Project, first: str, last: str) -> Search:
        releases = pinned(project.name, first, last)
        try:
            archives = fetched(releases)
        except LackingError as lacking:
            require(condition=False, reason=str(lacking))
            raise
        folder = next(folders)
        product = ReleasedProduct(folder / "product", releases, archives)
        told = {"unit": project.unit, "better": project.better, "packages": project.packages}
        bench = shlex.quote(str(BENCHES / project.bench))
        job = Job(folder / "work", SETTINGS.format(repository=product.folder, bench=bench, **told))
        ended = job.run("--old", product.commits[first], "--new", product.commits[last])
        assert ended.returncode in (0, 1), ended.stderr
        return Search(project, product, ended, job.report())

    return search


@dataclass(frozen=True)
class Known:
    """Releases between which the speed changed, and where."""

    project: Project
    first: str
    last: str
    changes: Mapping[str, str]
    """What each release made the only test; others changed it too, but by a few per cent at most."""


KNOWN = [
    Known(WCWIDTH, "0.1.9", "0.2.8", {"0.2.0": "better"}),
    Known(ATTRS, "17.3.0", "22.1.0", {"17.4.0": "slower", "19.2.0": "slower", "21.3.0": "faster"}),
    Known(SQLPARSE, "0.2.2", "0.4.3", {"0.3.1": "worse"}),
]


@pytest.mark.measure
@pytest.mark.slow
@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.project.name)
def test_releases_that_changed_the_speed_are_named(
    known: Known, bisected: Bisected, tmp_path: Path, record_property: Record
) -> None:
    """Both measurements take turns with a fixed piece of work, and come one after the other."""
    search = bisected(known.project, known.first, known.last)
    record_property("measured", search.sentence)
    named = search.named()

    assert known.changes.keys() <= named.keys(), search.ended.stdout
    for version, word in known.changes.items():
        assert f'"Release {version}" made the only test {word} by ' in search.sentence
    # Of several large ones the intervals leave out small changes that are not named: they are too narrow.
    for version in named if len(known.changes) == 1 else named.keys() - known.changes.keys():
        low, high = search.measure_directly(version, tmp_path / "direct")
        record_property("measured", f"{version} measured directly: {low:.1%} to {high:.1%}")
        assert named[version]["low"] <= high
        assert low <= named[version]["high"]


@pytest.mark.measure
@pytest.mark.slow
def test_releases_that_are_equally_fast_are_not_blamed(
    bisected: Bisected, require_quiet: Callable[[str], None], record_property: Record
) -> None:
    """Between these two only tables and papers were changed; a busy machine may leave that undecided."""
    search = bisected(WCWIDTH, "0.2.1", "0.2.8")
    record_property("measured", search.sentence)

    assert [] == search.culprits
    require_quiet(search.sentence if search.sentence.startswith("perftrend verdict: Undecided") else "")
    assert 0 == search.ended.returncode
    [visible] = search.report["smallest_visible"].values()
    assert "No change above " in search.sentence
    [shown] = re.findall(r"No change above ([\d.]+) % was found", search.sentence)
    assert float(shown) == pytest.approx(100 * visible, rel=0.06)
