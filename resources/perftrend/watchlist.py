"""The specification of an analysis: which tests are watched, their minimum change, and their owners.

A YAML file lists entries. Each selects traces by ``tags``, ``names``, ``keys`` and ``metrics``; all
that are given must match, and a trace belongs to the first entry that matches it. A trace
without a matching entry is not analysed. ``lists`` name tag expressions, for use in comments.
``aliases`` map the old names of renamed tests to the new ones, so that their history continues: the store
contains the results under their original names, and series are joined when they are read.

Source: "Continuous Performance Trending and Analysis", section Analysis (the list of tests in the
specification).
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

import numpy as np
import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)
from pydantic_core import ErrorDetails

from perftrend import errors
from perftrend.model import Result, Run, Series, TraceKey

Tagged = Callable[[tuple[str, ...]], Collection[TraceKey]]
"""Returns the traces of the tests that match any of some tag expressions."""


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _address(value: str) -> str:
    name, at, host = value.partition("@")
    if not (name and at and host) or any(each.isspace() or each in ",;<>" for each in value):
        raise ValueError(f"should be an address such as {'team@example.org'!r}")
    return value


Word = Annotated[str, Field(min_length=1)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_several), Field(min_length=1)]
ListName = Annotated[str, Field(pattern=r"^[A-Za-z0-9](?:[._-]?[A-Za-z0-9_]){0,99}$")]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], BeforeValidator(_several)]


class _WatchlistModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class WatchlistEntry(_WatchlistModel):
    """A selection of tests, and how they are watched."""

    tags: Words | None = None
    """Tag expressions of Robot Framework; one of them must match."""
    names: Words | None = None
    """Names of tests, with ``*``, ``?`` and ``[…]``, ignoring case; one of them must match."""
    keys: tuple[dict[str, str], ...] | None = Field(default=None, min_length=1)
    """Parameters of traces, each with all the values that a trace must have; one of them must match."""
    metrics: Words | None = None
    """``mrr``, ``ndr``, ``pdr``, …; none: all."""
    minimum_change: float | None = Field(default=None, ge=0, le=1)
    """A smaller change is shown and does not fail the job; none: the value of the settings."""
    owners: Annotated[tuple[Word, ...], BeforeValidator(_several)] = ()
    """The persons responsible for these tests."""
    mail: Addresses = ()
    """The addresses that are notified of their changes."""

    def fits(self, key: TraceKey, tagged: Tagged) -> bool:
        """Whether the entry matches a trace."""
        parameters = key.as_dict()
        name = parameters.get("test", "").lower()
        return (
            (self.metrics is None or parameters.get("metric", "") in self.metrics)
            and (self.names is None or any(fnmatch.fnmatchcase(name, form.lower()) for form in self.names))
            and (self.keys is None or any(wanted.items() <= parameters.items() for wanted in self.keys))
            and (self.tags is None or key in tagged(self.tags))
        )


class Alias(_WatchlistModel):
    """The old and the new value of a parameter of a trace."""

    parameter: Word = "test"
    """``test``, ``suite`` or any other except the testbed: runs, not only traces, belong to a testbed."""
    was: Word | None = None
    """The whole old value, exactly."""
    pattern: Word | None = None
    """Instead of ``was``: a regular expression that the whole old value must match."""
    now: str
    """The new value; with ``pattern`` it may contain groups, such as ``\\1`` and ``\\g<rest>``."""

    @model_validator(mode="after")
    def _can_be_used(self) -> Self:
        if (self.was is None) == (self.pattern is None):
            raise ValueError("should have one of was and pattern")
        if self.parameter == "testbed":
            raise ValueError("should name another parameter: a testbed cannot be renamed here")
        if self.pattern is not None:
            _check_pattern(self.pattern, self.now)
        return self

    def rename(self, value: str) -> str:
        """Return the new value of an old one, and any other unchanged."""
        if self.pattern is None:
            return self.now if value == self.was else value
        found = re.fullmatch(self.pattern, value)
        return found.expand(self.now) if found else value


def _check_pattern(pattern: str, template: str) -> None:
    """Check that a pattern and its replacement are valid.

    :raises ValueError: if not, or if the template contains a group that the pattern does not have.
    """
    try:
        compiled = re.compile(pattern)
        names = {number: name for name, number in compiled.groupindex.items()}
        groups = (
            f"(?P<{names[number]}>)" if number in names else "()" for number in range(1, compiled.groups + 1)
        )
        empty = re.fullmatch("".join(groups), "")
        assert empty is not None  # noqa: S101 - as many groups, each of nothing
        empty.expand(template)
    except (re.error, IndexError, RecursionError, OverflowError) as error:
        raise ValueError(f"should have a pattern and groups that can be used: {error}") from None


class Watchlist(_WatchlistModel):
    """The whole file."""

    tests: tuple[WatchlistEntry, ...] = Field(min_length=1)
    aliases: tuple[Alias, ...] = ()
    """Applied in order, each to the result of the one before."""
    lists: Mapping[ListName, Words] = {}
    """Tag expressions by their name in comments, without the ``#``."""

    def find_list(self, name: str) -> tuple[str, ...]:
        """Return the tag expressions of a test list.

        :raises UsageError: if no list has that name; suggests the nearest.
        """
        if name not in self.lists:
            choices = errors.nearest(f"#{name}", (f"#{known}" for known in self.lists))
            raise errors.UsageError(f"no test list is named '#{name}'{choices}")
        return self.lists[name]

    def rename(self, key: TraceKey) -> TraceKey:
        """Return the key of a trace under its newest names.

        A parameter that becomes empty is removed, and one that is missing counts as empty.
        """
        if not self.aliases:
            return key
        parameters = key.as_dict()
        for alias in self.aliases:
            parameters[alias.parameter] = alias.rename(parameters.get(alias.parameter, ""))
        return TraceKey.of(**{name: value for name, value in parameters.items() if value})

    def join(self, series: Iterable[Series]) -> list[Series]:
        """Join the series of renamed traces, in the order of their newest keys.

        If a run has results under the old and the new name, that under the new one counts. Series
        of another unit or direction stay separate, under their old key.
        """
        parts: dict[TraceKey, list[Series]] = {}
        apart: list[Series] = []
        for one in sorted(series, key=lambda one: self.rename(one.key) != one.key):
            others = parts.setdefault(self.rename(one.key), [])
            if others and (others[0].unit, others[0].better) != (one.unit, one.better):
                apart.append(one)
            else:
                others.append(one)
        together = [_together(key, ones) for key, ones in parts.items()]
        return sorted([*together, *apart], key=lambda one: str(one.key))

    def choose(self, keys: Iterable[TraceKey], tagged: Tagged) -> WatchedTraces:
        """Return the traces that are watched, and the entries that match none of them.

        :param keys: all traces.
        :param tagged: returns the traces of the tests that match any of some tag expressions.
        """
        watched: dict[TraceKey, WatchlistEntry] = {}
        unused = set(range(len(self.tests)))
        for key in keys:
            fitting = [number for number, entry in enumerate(self.tests) if entry.fits(key, tagged)]
            unused -= set(fitting)
            if fitting:
                watched[key] = self.tests[fitting[0]]
        return WatchedTraces(watched, tuple(number + 1 for number in sorted(unused)))


def _together(key: TraceKey, parts: list[Series]) -> Series:
    """Join several series into one; that of the newest name comes first."""
    if len(parts) == 1:
        return replace(parts[0], key=key)
    by_run: dict[str, tuple[Run, float, Result | None]] = {}
    for part in parts:
        results = part.results or (None,) * len(part.runs)
        for run, sample, result in zip(part.runs, part.samples, results, strict=True):
            by_run.setdefault(run.name, (run, float(sample), result))
    entries = sorted(by_run.values(), key=lambda entry: (entry[0].started, entry[0].build))
    results = tuple(replace(result, key=key) for _, _, result in entries if result is not None)
    return replace(
        parts[0],
        key=key,
        runs=tuple(run for run, _, _ in entries),
        samples=np.array([sample for _, sample, _ in entries]),
        results=results if len(results) == len(entries) else (),
    )


@dataclass(frozen=True, slots=True)
class WatchedTraces:
    """The traces that are watched, each with its entry, and the entries that match none, from 1 on."""

    watched: Mapping[TraceKey, WatchlistEntry]
    unused: tuple[int, ...]


_MODELS: Mapping[str, type[_WatchlistModel]] = {"tests": WatchlistEntry, "aliases": Alias}
"""The types of the list items in the file."""


def load(file: Path) -> Watchlist:
    """Read a specification.

    :raises SettingsError: if it cannot be read, is not valid YAML, or has an invalid key or value; for
        an invalid key it suggests the nearest.
    """
    where = f"specification {file}"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        return Watchlist.model_validate(content)
    except OSError as error:
        raise errors.SettingsError(f"{where}: {error.strerror}; give one that can be read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.SettingsError(f"{where} is not valid YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise errors.SettingsError(f"{where}: {_explain(error.errors()[0])}") from None


def _explain(error: ErrorDetails) -> str:
    """Describe an invalid place in the file and what is expected there."""
    *place, last = error["loc"] or ("",)
    # Positions in messages begin with 1.
    path = ".".join(str(part + 1) if isinstance(part, int) else part for part in (*place, last))
    if error["type"] == "extra_forbidden":
        known = _MODELS.get(str(error["loc"][0]) if place else "", Watchlist).model_fields
        return f"no key is named {path!r}{errors.nearest(str(last), known)}"
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if error["type"] in {"too_short", "string_too_short"}:
        expected = "should not be empty"
    if error["type"] == "missing":
        return f"{path} is missing; {'list the tests under it' if path == 'tests' else 'give it'}"
    if not path:
        return "it is not a mapping; begin with tests:"
    return f"{path} is {error['input']!r}; it {expected}"
