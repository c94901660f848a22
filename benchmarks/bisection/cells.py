"""The kinds of histories on which strategies are compared.

r is the size of the change in deviations of one measurement: r = 2 with the usual noise of 1 % between
measurements and 1 % within them is a change of 2.2 %.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perftrend.bisect.simulator import (
    HistoryModel,
    Jumps,
    Recording,
    SimulatedHistory,
    SimulatedNoise,
    Swing,
    Walk,
)
from perftrend.errors import UsageError

EVERYTHING: dict[str, Any] = {"size": 256, "drifts": (Walk(),), "outliers": 0.02, "broken": 0.1}
"""All kinds of noise together; the kind of drift may be replaced."""
STARTS: dict[str, Any] = {"within": 0.15, "between": 0.1, "modes": 4.0}
"""A program starts 2 % fast or 2 % slow."""
SPEEDS: dict[str, Any] = {
    "within": 0.4,
    "between": 0.3,
    "modes": 100 * math.log(1.6),
    "low": 0.45,
    "phase": 3.5,
}
"""The machine switches between two speeds, 1.6 apart, each for three or four measurements."""
RECORDED_CHANGES = (0, 5, 10, 25, 50, -20)
"""In per cent, for cells with recorded noise."""


@dataclass(frozen=True, slots=True)
class Cell:
    """Histories of one model."""

    name: str
    ratios: tuple[float, ...]
    """r of each change."""
    model: HistoryModel

    @classmethod
    def of(cls, name: str, *ratios: float, **options: Any) -> Cell:  # noqa: ANN401 - of model and noise
        """Return a cell from options of the model and of its noise, and changes relative to the noise."""
        known = SimulatedNoise.__dataclass_fields__
        noise = SimulatedNoise(**{key: value for key, value in options.items() if key in known})
        model = HistoryModel(
            changes=tuple(ratio * noise.deviation for ratio in ratios),
            noise=noise,
            **{key: value for key, value in options.items() if key not in known},
        )
        return cls(name, ratios, model)

    def history(self, number: int, seed: int = 0) -> SimulatedHistory:
        """Return one of its histories, the same for all strategies."""
        return SimulatedHistory(self.model, (zlib.crc32(self.name.encode()), seed, number))

    @property
    def r(self) -> float:
        """The smallest change in deviations of all noise of a measurement, all tests together; or 0.

        Layouts are part of this noise, so r of ``layout-r2`` and ``variants-r2`` is 1.8.
        """
        noise = self.model.noise
        share = noise.deviation / math.hypot(noise.deviation, noise.layout)
        return min(map(abs, self.ratios), default=0.0) * share * math.hypot(*self.model.tests)

    @property
    def percent(self) -> float:
        """The largest change, in per cent of the old level."""
        return 100 * math.expm1(max(map(abs, self.model.changes), default=0.0) / 100)


def cells_named(names: Sequence[str], cells: Sequence[Cell] | None = None) -> list[Cell]:
    """Return cells by their names, or by prefixes of these; all cells without names.

    :param cells: the cells to choose from, if not all of :data:`CELLS`.
    :raises ValueError: with the first name that is unknown.
    """
    cells = CELLS if cells is None else cells
    for name in names:
        if not any(cell.name.startswith(name) for cell in cells):
            raise ValueError(name)
    exact = {cell.name for cell in cells} & set(names)
    return [
        cell
        for cell in cells
        if not names
        or cell.name in names
        or any(cell.name.startswith(name) for name in names if name not in exact)
    ]


def cells_from_recording(file: Path, program: str) -> list[Cell]:
    """Return cells with the recorded noise of a program on a machine.

    :raises UsageError: if the file is not a recording of it.
    """
    try:
        with file.open(newline="") as lines:
            recording = Recording.read(file.stem, lines, program)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file}: {error}; give a recording") from None
    found = []
    for percent in RECORDED_CHANGES:
        change = 100 * math.log1p(percent / 100)
        name = f"{file.stem}-{program}-{f'{percent:+}%' if percent else 'none'}"
        model = HistoryModel(changes=(change,) if percent else (), recording=recording)
        found.append(Cell(name, (change / recording.deviation,) if percent else (), model))
    return found


def _both(kind: str, **options: Any) -> tuple[Cell, Cell]:  # noqa: ANN401 - of model and noise
    return tuple(Cell.of(f"{kind}-r{r}", r, **options) for r in (2, 4))  # type: ignore[return-value]  # two


_LARGEST = 100 * math.log(1.3) / SimulatedNoise().deviation

CELLS = (
    Cell.of("base-r1", 1),
    *(Cell.of(f"base-r{r}", r) for r in (2, 3, 4, 5, 10)),
    Cell.of("base-30%", _LARGEST),
    Cell.of("fails", -math.inf),
    *_both("N8", size=8),
    *_both("N256", size=256),
    *_both("N1024", size=1024),
    *_both("quiet", within=0.5, between=0.3),
    *_both("loud", within=3.0, between=3.0),
    *_both("within", within=3.0, between=0.0),
    *_both("walk", drifts=(Walk(),)),
    *_both("swing", drifts=(Swing(),)),
    *_both("jumps", drifts=(Jumps(),)),
    *_both("outliers", outliers=0.02),
    *_both("modes", modes=2.0),
    *_both("t4", freedom=4.0, within=0.3),
    *_both("following", autocorrelation=0.5),
    Cell.of("starts-5%", 5 / SimulatedNoise(**STARTS).deviation, **STARTS),
    *(
        Cell.of(
            f"speeds-{size}%", 100 * math.log1p(size / 100) / SimulatedNoise(**SPEEDS).deviation, **SPEEDS
        )
        for size in (5, 25)
    ),
    *_both("layout", layout=0.5),
    *_both("variants", layout=0.5, variants=3),
    Cell.of("variants-4%", 100 * math.log1p(0.04) / SimulatedNoise().deviation, layout=1.0, variants=3),
    *_both("broken", broken=0.1),
    *_both("merges", branches=0.3),
    *_both("all", **EVERYTHING),
    *_both("all-swing", **{**EVERYTHING, "drifts": (Swing(),)}),
    *_both("all-jumps", **{**EVERYTHING, "drifts": (Jumps(),)}),
    *_both("all-merges", **EVERYTHING, branches=0.3),
    Cell.of("all-r5", 5, **EVERYTHING),
    Cell.of("all-r10", 10, **EVERYTHING),
    Cell.of("tests-one-r3", 3, tests=(1.0, 0.0, 0.0, 0.0)),
    Cell.of("tests-two-r2", 2, tests=(1.0, 0.7, 0.0, 0.0)),
    Cell.of("tests-all-r1.5", 1.5, tests=(1.0, -1.0, 1.0, -1.0)),
    Cell.of("tests-shared-r3", 3, tests=(1.0, 0.0, 0.0, 0.0), shared=0.5),
    Cell.of("none"),
    Cell.of("none-quiet", within=0.5, between=0.3),
    Cell.of("none-loud", within=3.0, between=3.0),
    Cell.of("none-walk", drifts=(Walk(),)),
    Cell.of("none-swing", drifts=(Swing(),)),
    Cell.of("none-jumps", drifts=(Jumps(),)),
    Cell.of("none-modes", modes=2.0),
    Cell.of("none-layout", layout=0.5),
    Cell.of("none-variants", layout=0.5, variants=3),
    Cell.of("none-t4", freedom=4.0, within=0.3),
    Cell.of("none-following", autocorrelation=0.5),
    Cell.of("none-starts", **STARTS),
    Cell.of("none-speeds", **SPEEDS),
    Cell.of("none-all", **EVERYTHING),
    Cell.of("none-all-jumps", **{**EVERYTHING, "drifts": (Jumps(),)}),
    Cell.of("none-tests", tests=(1.0,) * 4),
    Cell.of("none-shared", tests=(1.0,) * 4, shared=0.5),
    Cell.of("two-same", 5, 4),
    Cell.of("two-opposite", 6, -3),
    Cell.of("two-cancelling", 5, -4.5),
    Cell.of("two-r2", 2.5, 2),
    Cell.of("two-all", 6, 4, **EVERYTHING),
)
