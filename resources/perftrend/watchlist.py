"""The specification of an analysis: which tests are watched, from which change on, and for whom.

A YAML file lists entries. Each says by ``tags``, ``names``, ``keys`` and ``metrics`` which traces it
is about; all that are given must fit, and a trace belongs to the first entry that fits it. A trace
that fits none is not analysed.

Source: "Continuous Performance Trending and Analysis", section Analysis (the list of tests in the
specification).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from perftrend import errors
from perftrend.model import TraceKey

Tagged = Callable[[tuple[str, ...]], Collection[TraceKey]]
"""Tells which traces the tests have that match any of some tag expressions."""


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _address(value: str) -> str:
    name, at, host = value.partition("@")
    if not (name and at and host) or any(each.isspace() or each in ",;<>" for each in value):
        raise ValueError(f"should be an address such as {'team@example.org'!r}")
    return value


Word = Annotated[str, Field(min_length=1)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_several), Field(min_length=1)]
Addresses = Annotated[tuple[Annotated[str, AfterValidator(_address)], ...], BeforeValidator(_several)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Entry(_Strict):
    """Some tests, and how they are watched."""

    tags: Words | None = None
    """Tag expressions of Robot Framework; one of them must fit."""
    names: Words | None = None
    """Names of tests, with ``*``, ``?`` and ``[…]``, in any case; one of them must fit."""
    keys: tuple[dict[str, str], ...] | None = Field(default=None, min_length=1)
    """Parameters of traces, each with all the values that a trace must have; one of them must fit."""
    metrics: Words | None = None
    """``mrr``, ``ndr``, ``pdr``, …; none: all."""
    minimum_change: float | None = Field(default=None, ge=0, le=1)
    """A smaller change is shown and does not fail the job; none: what the settings say."""
    owners: Annotated[tuple[Word, ...], BeforeValidator(_several)] = ()
    """Who looks after these tests."""
    mail: Addresses = ()
    """Who is told of their changes."""

    def fits(self, key: TraceKey, tagged: Tagged) -> bool:
        """Whether the entry is about a trace."""
        parameters = key.as_dict()
        name = parameters.get("test", "").lower()
        return (
            (self.metrics is None or parameters.get("metric", "") in self.metrics)
            and (self.names is None or any(fnmatch.fnmatchcase(name, form.lower()) for form in self.names))
            and (self.keys is None or any(wanted.items() <= parameters.items() for wanted in self.keys))
            and (self.tags is None or key in tagged(self.tags))
        )


class Watchlist(_Strict):
    """The whole file."""

    tests: tuple[Entry, ...] = Field(min_length=1)

    def choose(self, keys: Iterable[TraceKey], tagged: Tagged) -> Chosen:
        """Say which traces are watched, and which entries fit none of them.

        :param keys: the traces that there are.
        :param tagged: which traces the tests have that match any of some tag expressions.
        """
        watched: dict[TraceKey, Entry] = {}
        unused = set(range(len(self.tests)))
        for key in keys:
            fitting = [number for number, entry in enumerate(self.tests) if entry.fits(key, tagged)]
            unused -= set(fitting)
            if fitting:
                watched[key] = self.tests[fitting[0]]
        return Chosen(watched, tuple(number + 1 for number in sorted(unused)))


@dataclass(frozen=True, slots=True)
class Chosen:
    """The traces that are watched, each with its entry, and the entries that fit none, from 1 on."""

    watched: Mapping[TraceKey, Entry]
    unused: tuple[int, ...]


def load(file: Path) -> Watchlist:
    """Read a specification.

    :raises SettingsError: if it cannot be read, is no YAML, or has a key or a value that is wrong; of
        a wrong key it says the nearest right one.
    """
    where = f"specification {file}"
    try:
        content = yaml.safe_load(file.read_text(encoding="utf-8"))
        return Watchlist.model_validate(content)
    except OSError as error:
        raise errors.SettingsError(f"{where}: {error.strerror}; give one that can be read") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise errors.SettingsError(f"{where} is no YAML: {' '.join(str(error).split())}") from None
    except ValidationError as error:
        raise errors.SettingsError(f"{where}: {_explained(error.errors()[0])}") from None


def _explained(error: ErrorDetails) -> str:
    """Say of a wrong place in the file what it is and what is expected."""
    *place, last = error["loc"] or ("",)
    # What people count begins with 1.
    path = ".".join(str(part + 1) if isinstance(part, int) else part for part in (*place, last))
    if error["type"] == "extra_forbidden":
        known = Entry.model_fields if place else Watchlist.model_fields
        return f"no key is named {path!r}{errors.nearest(str(last), known)}"
    expected = error["msg"].removeprefix("Value error, ").removeprefix("Input ")
    if error["type"] == "missing":
        return f"{path} is missing; list the tests under it"
    if not path:
        return "it is no table; begin with tests:"
    return f"{path} is {error['input']!r}; it {expected}"
