"""A product with a command to measure it, searched by the job, and a change of it on Gerrit's double."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from perftrend.builds import Builds
from perftrend.cli import bisect
from perftrend.model import BuildMeasurement
from tests.doubles import gerrit
from tests.doubles.gerrit import GerritDouble
from tests.products.histories import History
from tests.products.printed import FAILING, SCRIPT, scattered

SETTINGS = """
project:
  profile: command
  repository: {repository}
  parameters: {{build: sh build.sh, measure: sh measure.sh, unit: ops}}
gerrit: {{attempts: 1}}
"""
WORKS, BREAKS = "exit 0\n", "echo compiling router.c; echo 'router.c:4: error' >&2; exit 2\n"
JOB = "perftrend-bisect-command"
BEGUN = "Looking for the commit that changed the performance: "


class Product:
    """A product whose command prints numbers around a level, always the same ones for a commit."""

    def __init__(self, folder: Path) -> None:
        self.history = History(folder)
        self.hashes: list[str] = []

    def commit(self, level: float | str, build: str = WORKS) -> str:
        number = len(self.hashes)
        script = FAILING if level == "fails" else scattered(float(level), seed=f"{number}")
        files = {SCRIPT: script, "level": f"{level}", "build.sh": build}
        self.hashes.append(self.history.commit(f"Commit {number}", files))
        return self.hashes[-1]

    def range(self, *levels: float | str, broken: tuple[int, ...] = ()) -> list[str]:
        """Add a commit for each level; those that are broken do not build."""
        for place, level in enumerate(levels):
            self.commit(level, BREAKS if place in broken else WORKS)
        return self.hashes


@dataclass
class Place:
    """A folder to work in, with a product of its own, and what was done there."""

    bench: Any
    product: Product
    measured: list[str] = field(default_factory=list)
    built: list[str] = field(default_factory=list)

    def run(self, *arguments: str) -> Any:
        given = ["--settings", "settings.yaml", "--testbed", "simulated", *arguments]
        return self.bench._job(bisect.main, given)

    def search(self, *arguments: str) -> Any:
        hashes = self.product.hashes
        return self.run("--old", hashes[0], "--new", hashes[-1], *arguments)

    @property
    def archive(self) -> Path:
        """The folder of the only job: of the profile, or of the testbed that a comment names."""
        return next(self.bench.archives.glob("perftrend-bisect-*"), self.bench.archives / JOB)  # type: ignore[no-any-return]

    @property
    def sessions(self) -> list[Path]:
        """The sessions that have not ended."""
        return sorted((self.bench.folder / "bisections").glob("*"))

    def report(self) -> Any:
        return json.loads((self.bench.folder / "report" / "bisection.json").read_text())

    def culprits(self) -> list[list[int]]:
        """Return what was found, by the numbers of the commits."""
        return [
            [self.product.hashes.index(each) for each in culprit["commits"]]
            for culprit in self.report()["culprits"]
        ]


@pytest.fixture
def place(bench: Any, monkeypatch: pytest.MonkeyPatch) -> Place:
    settings = SETTINGS.format(repository=bench.folder / "product")
    (bench.folder / "settings.yaml").write_text(settings)
    found = Place(bench, Product(bench.folder / "product"))
    for name, done in (("measure", found.measured), ("_make", found.built)):
        _noted(monkeypatch, name, done)
    return found


def _noted(monkeypatch: pytest.MonkeyPatch, name: str, done: list[str]) -> None:
    usual = getattr(Builds, name)

    def noting(self: Builds, what: Any, *more: Any) -> Any:
        done.append(getattr(what, "commit", what))
        return usual(self, what, *more)

    monkeypatch.setattr(Builds, name, noting)


def raising(error: BaseException | type[BaseException]) -> Callable[..., Any]:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


def stopped_after(
    place: Place,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException | type[BaseException] = KeyboardInterrupt,
    search: Callable[[], Any] | None = None,
) -> None:
    """Search until so many measurements are made."""
    usual = Builds.measure

    def measure(self: Builds, built: Any, number: int) -> BuildMeasurement:
        if len(place.measured) == count:
            raise error
        return usual(self, built, number)

    with monkeypatch.context() as patch:
        patch.setattr(Builds, "measure", measure)
        (search or place.search)()


@dataclass
class Review:
    """A change of the double's, whose patch set is the newest commit of the product."""

    place: Place
    double: GerritDouble

    def push(self, *levels: float, broken: tuple[int, ...] = ()) -> None:
        product = self.place.product
        revision = product.range(*levels, broken=broken)[-1]
        product.history.git("update-ref", "refs/changes/01/1/1", revision)
        told = gerrit.change(1)
        told["revisions"] = {revision: told["revisions"][gerrit.REVISION]}
        self.double.files["/changes/1"] = {**told, "messages": self.double.messages}

    def search(self, *arguments: str) -> Any:
        return self.place.run("--old", self.place.product.hashes[0], "--change", "1", *arguments)

    @property
    def all_texts(self) -> list[str]:
        return [str(each["message"]) for each in self.double.posted]

    @property
    def texts(self) -> list[str]:
        """What was said, without that it began."""
        return [text for text in self.all_texts if not text.startswith(BEGUN)]


@pytest.fixture
def review(place: Place, gerrit_double: GerritDouble) -> Review:
    return Review(place, gerrit_double)
