"""The noise of tests from the history in the store: how much runs differ while nothing changes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from perftrend.analysis import noise, partition
from perftrend.model import Series, TraceKey
from perftrend.settings import Settings

_FEWEST_RUNS = 10
"""Fewer runs carry less information about the noise than the rounds themselves."""


def read_deviations(settings: Settings, testbed: str, names: Mapping[TraceKey, str]) -> dict[str, float]:
    """Return the standard deviation between runs in per cent, by test, for those with a history.

    A store that does not exist is not created.

    :raises StoreError: if the store cannot be read.
    """
    if not names:
        return {}
    from perftrend.store import Store  # noqa: PLC0415 - a command of a profile needs no database

    if not Store.may_be_there(settings.store):
        return {}
    with Store.open(settings.store) as store:
        current = store.renames.names().current
        names = {current(key): name for key, name in names.items()}
        history = store.series(testbed, last=settings.analysis.history, keys=names)
    return dict(_deviations(history, names, settings.analysis.formula))


def _deviations(
    history: list[Series], names: Mapping[TraceKey, str], formula: str
) -> Iterator[tuple[str, float]]:
    for series in history:
        if series.key not in names:
            continue
        groups = partition(series.samples, formula=formula).groups
        found = noise([result.samples if result.usable else () for result in series.results], groups)
        level = groups[-1].mean if groups else 0.0
        if found.runs >= _FEWEST_RUNS and level > 0 and found.between > 0:
            yield names[series.key], 100 * found.between / level
