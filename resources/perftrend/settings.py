"""The settings: one typed tree, read from four places.

Each place outweighs the ones before it::

    defaults  <  YAML file  <  environment  <  command line

A setting has one name everywhere, ``section.key`` or ``key``. In the YAML file it is nested by
section. In the environment it is ``PERFTREND_``, the section and the key in capitals, joined by
underscores: ``trial.duration_s`` is ``PERFTREND_TRIAL_DURATION_S``. A variable that is empty
counts as not given. What is a list is written as words between spaces, what is a table as
``key=value`` words; a YAML file may use YAML's own lists and tables instead.

A list is replaced by a weightier place, a table is merged key by key. Relative paths start from
the working directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_origin

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from perftrend.errors import SettingsError, nearest

PREFIX = "PERFTREND_"
FILE_VARIABLE = f"{PREFIX}SETTINGS"
"""Names the YAML file where no ``--settings`` does."""

_NOTHING: Mapping[str, Any] = MappingProxyType({})


def _words(value: object) -> object:
    return tuple(re.split(r"[\s,]+", value.strip())) if isinstance(value, str) else value


def _text(value: object) -> object:
    """Take what YAML reads as a number or a truth value for the word that was written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _number(value: object) -> object:
    if isinstance(value, bool):
        raise ValueError("Input should be a number")
    return value


def _path(value: object) -> object:
    return os.path.expanduser(value) if isinstance(value, str) else value  # noqa: PTH111 - text in, text out


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1)]
Words = Annotated[tuple[Text, ...], BeforeValidator(_words)]
Folder = Annotated[Path, BeforeValidator(_path)]
Number = Annotated[float, BeforeValidator(_number)]
Seconds = Annotated[Number, Field(gt=0)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=1)]


_SOAK = "soak"
NO_SOAK = f"NOT{_SOAK}"
"""What a tag expression ends with that a person did not want a soak from."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True)


class TrialSettings(_Section):
    """How trials are made."""

    duration_s: Seconds | None = None
    """Duration of an MRR trial; none: what the testbed's file says."""
    multiplicity: Count | None = None
    """Trials of an MRR test; none: what the testbed's file says."""
    starts: Count | None = None
    """Starts of the device that these trials are spread over; none: what the testbed's file says."""
    attempts: Count = 5
    """How often a trial is measured before it is given up as one that cannot be trusted."""


class SearchSettings(_Section):
    """How NDR and PDR are searched."""

    initial_duration_s: Seconds | None = None
    """Trial duration of the first phase; none: what the testbed's file says."""
    final_duration_s: Seconds | None = None
    """Trial duration of the last phase; none: what the testbed's file says."""
    relative_width: Annotated[Number, Field(gt=0, lt=1)] = 0.005
    """Required width of the interval, relative to its upper bound."""
    loss_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.005
    """The loss ratio that PDR allows (PLR)."""
    minimum_pps: Annotated[Number, Field(gt=0)] | None = None
    """The lowest rate that is tried; none: what the testbed's file says."""
    intermediate_phases: Annotated[int, BeforeValidator(_number), Field(ge=0)] = 2
    """Phases between the first and the last, each with half the width of the one before."""
    timeout_s: Seconds = 720.0
    """A search that takes longer ends without a result."""
    strategy: Literal["predictive", "mdr"] = "predictive"
    """The way to search: the one that takes the least time, or the documented one."""
    trials_per_bound: Annotated[Count, Field(le=1000)] = 1
    """Trials of the final duration that decide whether a rate passes; more than 1 needs ``predictive``."""
    exceed_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Share of these trials that may fail at a rate that passes."""


class SoakSettings(_Section):
    """How the critical load is estimated."""

    total_duration_s: Seconds = 1800.0
    """All trials together; none begins that would not end within it."""
    trial_duration_s: Seconds = 5.0
    """The first trial; each further one is a little longer."""
    target_loss_ratio: Annotated[Number, Field(ge=1e-12, lt=1)] = 1e-7
    """The average loss ratio at the critical load."""
    credibility: Annotated[Number, Field(gt=0, lt=1)] = 0.95
    """Probability that the critical load lies within the interval."""


class AnalysisSettings(_Section):
    """How the newest run is judged."""

    method: Literal["mdl", "three-sigma"] = "mdl"
    """What tells a change: the partition into groups, or the distance from the moving average."""
    formula: Literal["jumpavg-0.4", "jumpavg-0.1"] = "jumpavg-0.4"
    """The description length of the partition."""
    outliers: bool = False
    """Whether the partition tells single bad runs apart from the groups."""
    window: Annotated[int, BeforeValidator(_number), Field(ge=4)] = 30
    """Length N of the rolling window of the moving statistics, in runs."""
    history: Annotated[int, BeforeValidator(_number), Field(ge=2)] = 180
    """How many of the newest runs are looked at."""
    week_runs: Count = 5
    """Runs that count as one week; 10 where a topology has several testbeds."""
    minimum_change: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """A smaller step between two trends, relative to the first, is not told as a change."""
    specification: Folder | None = None
    """YAML file with the tests that are watched, their thresholds and owners; none: all tests."""


class Settings(_Section):
    """Everything that can be set."""

    testbed: Text = "1n-veth"
    """What to measure on."""
    testbeds: Folder | None = None
    """Folder of a team's own testbed files, looked at before perftrend's own."""
    suites: Folder | None = None
    """The Robot suites, a file or a folder; none: ``tests/suites`` of the checkout."""
    store: Text = "perftrend.sqlite"
    """Where results are kept: the path of an SQLite file, or a database URL."""
    archive: Folder = Path("archives")
    """Folder that receives each run's files."""
    report: Folder = Path("report")
    """Folder that receives the report."""
    cadence: Text = "nightly"
    """Which entry of ``cadences`` chooses the tests."""
    cadences: dict[str, Words] = {"nightly": ("mrrAND64b",), "weekly": ("ndrpdrAND64b",)}
    """Tag expressions by cadence; a test that matches any one of them is run."""
    tags: Words = ()
    """Tag expressions that choose the tests instead of the cadence's."""
    device_options: dict[str, Text] = {}
    """Options for the device, beside those of the testbed's file."""
    wait_s: Annotated[Number, Field(ge=0)] = 3600.0
    """How long to wait for a testbed that another job uses."""
    timeout_s: Seconds = 14400.0
    """The suites of one run are ended after this time."""
    trial: TrialSettings = TrialSettings()
    search: SearchSettings = SearchSettings()
    soak: SoakSettings = SoakSettings()
    analysis: AnalysisSettings = AnalysisSettings()

    @property
    def expressions(self) -> tuple[str, ...]:
        """The tag expressions that choose the tests of a run.

        A soak takes half an hour, so it is chosen only where an expression names it.
        """
        chosen = self.tags or self.cadences[self.cadence]
        return tuple(each if _SOAK in each.lower() else f"{each}{NO_SOAK}" for each in chosen)

    def as_yaml(self) -> str:
        """Return a settings file that gives these very settings."""
        return yaml.safe_dump(self.model_dump(mode="json", exclude_none=True), sort_keys=False)

    @classmethod
    def load(
        cls,
        file: Path | str | None = None,
        environment: Mapping[str, str] = os.environ,
        overrides: Mapping[str, Any] = _NOTHING,
    ) -> Settings:
        """Read the settings from all four places.

        :param file: the YAML file; by default what ``PERFTREND_SETTINGS`` names, if anything.
        :param environment: variables by name.
        :param overrides: what the command line says, by full name, such as
            ``{"testbed": "simulated", "trial.duration_s": 0.5}``; None means not given.
        :raises SettingsError: for a name or a value that is wrong, saying where it came from.
        """
        file = file or environment.get(FILE_VARIABLE)
        given = _Given()
        if file:
            given.read_file(Path(file))
        given.read_environment(environment)
        given.read_command_line(overrides)
        try:
            settings = cls.model_validate(given.tree())
        except ValidationError as error:
            raise SettingsError(given.explain(error)) from None
        if not settings.tags and settings.cadence not in settings.cadences:
            known = nearest(settings.cadence, settings.cadences)
            raise SettingsError(f"{given.source('cadence')}: no cadence is named {settings.cadence!r}{known}")
        _require_agreement(settings, given)
        return settings


def names() -> list[str]:
    """Return the full name of every setting, in the order of the tree."""
    return [".".join(path) for path in _fields()]


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.replace(".", "_").upper()


def _require_agreement(settings: Settings, given: _Given) -> None:
    """Refuse what is right by itself, but not beside another setting."""
    search, soak = settings.search, settings.soak
    if search.strategy == "mdr" and search.trials_per_bound > 1:
        raise SettingsError(
            f"{given.source('search', 'trials_per_bound')}: search.trials_per_bound is "
            f"{search.trials_per_bound}; search.strategy mdr decides by 1 trial, predictive by several"
        )
    if soak.trial_duration_s > soak.total_duration_s:
        path = ("soak", "total_duration_s")
        raise SettingsError(
            f"{given.source(*path)}: soak.total_duration_s is {soak.total_duration_s:g}; it should be at "
            f"least soak.trial_duration_s, {soak.trial_duration_s:g}"
        )


class _Given:
    """Values by the full path of their setting, each with the place that it came from."""

    def __init__(self) -> None:
        self._values: dict[tuple[str, ...], Any] = {}
        self._sources: dict[tuple[str, ...], str] = {}

    def read_file(self, file: Path) -> None:
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(
                f"settings file {file}: {error.strerror}; give one that can be read"
            ) from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise SettingsError(f"settings file {file} is no YAML: {' '.join(str(error).split())}") from None
        self._take((), content, f"settings file {file}")

    def read_environment(self, environment: Mapping[str, str]) -> None:
        variables = {variable(name): tuple(name.split(".")) for name in names()}
        for name, value in environment.items():
            if not name.startswith(PREFIX) or name == FILE_VARIABLE:
                continue
            if name not in variables:
                choices = nearest(name, [*variables, FILE_VARIABLE])
                raise SettingsError(f"environment: no setting has the variable {name}{choices}")
            if value.strip():
                self._take(variables[name], value, f"environment variable {name}")

    def read_command_line(self, overrides: Mapping[str, Any]) -> None:
        for name, value in overrides.items():
            if value is not None:
                self._take(tuple(name.split(".")), value, "command line")

    def tree(self) -> dict[str, Any]:
        """Return the values nested as :class:`Settings` is; a table keeps the defaults of its other keys."""
        nested: dict[str, Any] = {}
        for path, value in self._values.items():
            place = nested
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
        for name, field in _tables().items():
            if name in nested:
                nested[name] = {**field.default, **nested[name]}
        return nested

    def source(self, *path: str) -> str:
        """Say where a setting came from."""
        return self._sources.get(path, "defaults")

    def explain(self, error: ValidationError) -> str:
        """Say of the first wrong value where it came from, what it is and what is expected."""
        first = error.errors()[0]
        place = tuple(str(part) for part in first["loc"])
        # A location goes on into the value: item 2 of a list, the branch of an alternative.
        path = next(place[:length] for length in range(len(place), -1, -1) if place[:length] in self._values)
        expected = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        return f"{self.source(*path)}: {'.'.join(path)} is {self._values[path]!r}; it {expected}"

    def _take(self, path: tuple[str, ...], value: object, source: str) -> None:
        """Keep a value under its path, taking sections and tables apart so that places merge key by key."""
        if path in _fields() and path[0] not in _tables():
            self._values[path] = value
            self._sources[path] = source
        elif path in _fields():
            for key, item in _table(path[0], value, source).items():
                self._values[*path, str(key)] = item
                self._sources[*path, str(key)] = source
        elif any(known[: len(path)] == path for known in _fields()):
            # A section whose every line is a comment is empty.
            if not isinstance(value, Mapping | None):
                where = ".".join(path) or "the top"
                raise SettingsError(f"{source}: {where} is {value!r}; give a table of settings")
            for key, item in (value or {}).items():
                self._take((*path, str(key)), item, source)
        else:
            name = ".".join(path)
            raise SettingsError(f"{source}: no setting is named {name!r}{nearest(name, names())}")


def _table(name: str, value: object, source: str) -> Mapping[Any, Any]:
    if isinstance(value, Mapping):
        return value
    words = value.split() if isinstance(value, str) else [""]
    pairs = [word.partition("=") for word in words]
    if not all(key and equals for key, equals, _ in pairs):
        raise SettingsError(
            f"{source}: {name} is {value!r}; give key=value, with a space between two of them"
        )
    return {key: item for key, _, item in pairs}


@cache
def _fields() -> tuple[tuple[str, ...], ...]:
    """Return the path of every setting."""
    return tuple(_walk(Settings))


def _walk(section: type[BaseModel], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _walk(kind, (*path, name))
        else:
            yield (*path, name)


@cache
def _tables() -> dict[str, FieldInfo]:
    return {
        name: field for name, field in Settings.model_fields.items() if get_origin(field.annotation) is dict
    }
