"""Real series with pinned answers; ``tests/data/series/answers.yaml`` argues for each of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from perftrend.analysis import partition
from perftrend.analysis.sequential import replay
from perftrend.model import Better, Samples

DATA = Path(__file__).resolve().parents[2] / "data"
ANSWERS: dict[str, Any] = yaml.safe_load((DATA / "series" / "answers.yaml").read_text(encoding="utf-8"))


def read(name: str) -> tuple[Samples, Better]:
    folder = DATA if (DATA / f"{name}.json").exists() else DATA / "series"
    data = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    assert data["source"]
    assert data["licence"]
    return np.array([value for _, value in data["samples"]], dtype=float), Better(data["better"])


def besides(name: str, positions: list[int], *, missed: Sequence[int] = ()) -> list[int]:
    """Return what was reported beside the changes that everybody sees, each of which must be there."""
    rest = list(positions)
    for change in ANSWERS[name]["changes"]:
        if change["at"] in missed:
            continue
        nearest = min(rest, key=lambda at: abs(at - change["at"]), default=-1)
        assert abs(nearest - change["at"]) <= change["within"], f"not found: {change['why']}"
        rest.remove(nearest)
    return rest


def pinned(name: str, part: str) -> list[int]:
    return sorted(at for each in ANSWERS[name][part] for at in each["at"])


@pytest.mark.parametrize("name", ANSWERS)
def test_partition_finds_what_a_person_sees(name: str) -> None:
    samples, _ = read(name)
    found = [group.start for group in partition(samples).groups[1:]]

    assert pinned(name, "partition_also") == besides(name, found)


@pytest.mark.parametrize("name", ANSWERS)
def test_partition_finds_it_with_outliers_told_apart(name: str) -> None:
    samples, _ = read(name)
    found = [group.start for group in partition(samples, outliers=True).groups[1:]]
    missed = [each["at"] for each in ANSWERS[name].get("outliers_missed", ())]

    assert pinned(name, "outliers_also") == besides(name, found, missed=missed)


@pytest.mark.parametrize("name", ANSWERS)
def test_sequential_detector_finds_what_a_person_sees(name: str) -> None:
    samples, better = read(name)
    found = [each.position for each in replay(samples, better=better) if each.confirmed]

    assert pinned(name, "sequential_also") == besides(name, found)


def test_every_series_beside_the_answers_is_pinned() -> None:
    files = {file.stem for file in (DATA / "series").glob("*.json")}

    assert set(ANSWERS) - {"tigerbeetle_throughput"} == files
