"""The tree of all settings, the places that it is read from, and the messages for wrong values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError
from pydantic.fields import FieldInfo

from perftrend.errors import SettingsError, nearest
from perftrend.settings.sections import (
    STRICT,
    AnalysisSettings,
    BisectSettings,
    DashboardSettings,
    FetchSettings,
    GerritSettings,
    JenkinsSettings,
    ListenerSettings,
    MailSettings,
    PerftestSettings,
    ProjectSettings,
    RetentionSettings,
    SearchSettings,
    SoakSettings,
    TrialSettings,
    TriggerSettings,
)
from perftrend.settings.values import Folder, Number, Place, Seconds, Text, Words

PREFIX = "PERFTREND_"
FILE_VARIABLE = f"{PREFIX}SETTINGS"
"""The variable that names the YAML file if ``--settings`` is not given."""

SettingPath = tuple[str, ...]
"""The path of a setting in the tree: ``("trial", "duration_s")``."""

FORMER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bisect.inside": "bisect.search_equal_ends",
        "dashboard.behind_s": "dashboard.cache_max_age_s",
        "dashboard.kept_bytes": "dashboard.response_cache_bytes",
        "dashboard.log_level": "log_level",
        "dashboard.watch": "dashboard.watch_folder",
        "gerrit.tell_culprit": "gerrit.notify_culprit",
        "listener.look_back_s": "listener.lookback_s",
    }
)
"""The present names of settings that were renamed; the next release removes the former ones."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_IN_FILE = "_FILE"
"""Ends the variable of a secret that names a file with its value, as container platforms provide secrets."""
_STORE = ("store",)
"""Its URL may contain a password."""
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:/?#@]*):[^/?#]*@")

ON_REQUEST = ("soak", "reconf")
"""Tests that are excluded by a suffix of each tag expression that does not contain the word."""


class Settings(BaseModel):
    """All settings."""

    model_config = STRICT

    testbed: Text = "1n-veth"
    """The testbed to measure on."""
    testbeds: Folder | None = None
    """Folder of a team's own testbed files, searched before perftrend's own."""
    suites: Folder | None = None
    """The Robot suites, a file or a folder; none for those of perftrend, ``tests/suites`` in a checkout."""
    store: Place = "perftrend.sqlite"
    """The store of results: the path of an SQLite file, or a database URL."""
    archive: Folder = Path("archives")
    """Folder that receives each run's files."""
    report: Folder = Path("report")
    """Folder that receives the report."""
    cadence: Text = "nightly"
    """The entry of ``cadences`` that selects the tests."""
    cadences: dict[str, Words] = {"nightly": ("mrrAND64bAND1c",), "weekly": ("ndrpdrAND64bAND1c",)}
    """Tag expressions by cadence; a test that matches any one of them is run."""
    tags: Words = ()
    """Tag expressions that select the tests instead of those of the cadence."""
    device_options: dict[str, Text] = {}
    """Options for the device, in addition to those of the testbed file."""
    official: bool = False
    """Whether a run counts as a nightly one even if options make it an experiment."""
    reference: bool = False
    """Whether a run measures the reference build of the testbed, which never changes."""
    wait_s: Annotated[Number, Field(ge=0)] = 3600.0
    """How long to wait for a testbed that another job uses."""
    timeout_s: Seconds = 14400.0
    """Time after which the suites of a run are terminated."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe events that the dashboard and the listener log."""
    trial: TrialSettings = TrialSettings()
    search: SearchSettings = SearchSettings()
    soak: SoakSettings = SoakSettings()
    analysis: AnalysisSettings = AnalysisSettings()
    jenkins: JenkinsSettings = JenkinsSettings()
    gerrit: GerritSettings = GerritSettings()
    trigger: TriggerSettings = TriggerSettings()
    listener: ListenerSettings = ListenerSettings()
    project: ProjectSettings = ProjectSettings()
    perftest: PerftestSettings = PerftestSettings()
    bisect: BisectSettings = BisectSettings()
    fetch: FetchSettings = FetchSettings()
    mail: MailSettings = MailSettings()
    retention: RetentionSettings = RetentionSettings()
    dashboard: DashboardSettings = DashboardSettings()

    @property
    def expressions(self) -> tuple[str, ...]:
        """The tag expressions that select the tests of a run.

        A soak takes half an hour, so it is selected only if an expression names it. The same is true for
        reconfigurations.
        """
        chosen = self.tags or self.cadences[self.cadence]
        return tuple(
            "NOT".join([each, *(word for word in ON_REQUEST if word not in each.lower())]) for each in chosen
        )

    @property
    def for_builds(self) -> Settings:
        """These settings for a job that compares builds: 5 trials of 10 s, unless others are set.

        Long trials distinguish a change of the code from noise.

        Source: "Bisecting", section Temporary specifics.
        """
        usual = {"duration_s": 10.0, "multiplicity": 5}
        missing = {name: value for name, value in usual.items() if getattr(self.trial, name) is None}
        return self.model_copy(update={"trial": self.trial.model_copy(update=missing)})

    def as_yaml(self) -> str:
        """Return a settings file with these settings, without secrets.

        Passwords in the URLs of the database and of the repository are removed, too.
        """
        values = self.model_dump(mode="json", exclude_none=True)
        values["store"] = _PASSWORD.sub(r"\g<user>@", self.store)
        if self.project.repository:
            values["project"]["repository"] = _PASSWORD.sub(r"\g<user>@", self.project.repository)
        return yaml.safe_dump(values, sort_keys=False)

    @classmethod
    def load(
        cls,
        file: Path | str | None = None,
        environment: Mapping[str, str] = os.environ,
        overrides: Mapping[str, Any] = _NOTHING,
    ) -> Settings:
        """Read the settings from all four places.

        :param file: the YAML file; by default that of ``PERFTREND_SETTINGS``, if this is set.
        :param environment: variables by name.
        :param overrides: values of the command line by full name, such as
            ``{"testbed": "simulated", "trial.duration_s": 0.5}``; None means not given.
        :raises SettingsError: if a name or a value is wrong; the message names its place.
        """
        file = file or environment.get(FILE_VARIABLE)
        given = GivenSettings(cls, FORMER_NAMES)
        if file:
            given.read_file(Path(file).expanduser())
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


class GivenSettings:
    """Values by the full path of their setting, each with the place that it came from.

    :param root: the model of the whole tree.
    :param former: the present name of each setting that was renamed, by its former name.
    """

    def __init__(self, root: type[BaseModel], former: Mapping[str, str]) -> None:
        self._fields = _fields(root)
        self._names = [".".join(path) for path in self._fields]
        self._tables = {
            path: field for path, field in self._fields.items() if get_origin(field.annotation) is dict
        }
        self._former = {tuple(old.split(".")): tuple(new.split(".")) for old, new in former.items()}
        self._values: dict[SettingPath, Any] = {}
        self._sources: dict[SettingPath, str] = {}

    def read_file(self, file: Path) -> None:
        """Read the values of a YAML file."""
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise SettingsError(
                f"settings file {file}: {error.strerror}; give one that can be read"
            ) from None
        except yaml.MarkedYAMLError as error:
            raise SettingsError(
                f"settings file {file} is not valid YAML: {_without_content(error)}"
            ) from None
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            # Bytes that are not UTF-8, a date such as 2024-13-01, or too many nested brackets.
            raise SettingsError(
                f"settings file {file} is not valid YAML: {' '.join(str(error).split())}"
            ) from None
        self._store_value((), content, f"settings file {file}")

    def read_environment(self, environment: Mapping[str, str]) -> None:
        """Read the values of environment variables with the prefix, and of the files that they name."""
        variables = {variable(name): tuple(name.split(".")) for name in self._names}
        variables |= {variable(".".join(path)): path for path in self._former}
        in_files = {
            f"{variable('.'.join(path))}{_IN_FILE}": path
            for path in self._fields
            if self._is_secret(path) or path == _STORE
        }
        for name, value in environment.items():
            if not name.startswith(PREFIX) or name == FILE_VARIABLE:
                continue
            if name not in variables and name not in in_files:
                choices = nearest(name, [*map(variable, self._names), *in_files, FILE_VARIABLE])
                raise SettingsError(f"environment: no setting has the variable {name}{choices}")
            if not value.strip():
                continue
            source = f"environment variable {name}"
            if name in variables:
                self._store_value(variables[name], value, source)
            elif environment.get(name.removesuffix(_IN_FILE), "").strip():
                raise SettingsError(f"{source}: {name.removesuffix(_IN_FILE)} is set, too; remove one")
            else:
                self._store_value(in_files[name], _read_value(value, source), source)

    def read_command_line(self, overrides: Mapping[str, Any]) -> None:
        """Read the values of options; reject secrets, because all users of a machine see command lines."""
        for name, value in overrides.items():
            path = tuple(name.split("."))
            if value is not None and self._is_secret(path):
                raise SettingsError(
                    f"command line: {name} would be seen by every user of this machine; "
                    f"give it by {variable(name)} or in the settings file"
                )
            if value is not None:
                self._store_value(path, value, "command line")

    def tree(self) -> dict[str, Any]:
        """Return the values, nested like the root.

        A table retains the defaults of its other keys; null removes one of them.
        """
        nested: dict[str, Any] = {}
        for path, value in self._values.items():
            place = nested
            for name in path[:-1]:
                place = place.setdefault(name, {})
            place[path[-1]] = value
        for (*sections, name), field in self._tables.items():
            place = nested
            for section in sections:
                place = place.get(section, {})
            if name in place:
                merged = {**field.default, **place[name]}
                place[name] = {key: value for key, value in merged.items() if value is not None}
        return nested

    def source(self, *path: str) -> str:
        """Return the place that a setting came from."""
        return self._sources.get(path, "defaults")

    def explain(self, error: ValidationError) -> str:
        """Return the place of the first wrong value, the value, and the expected form, as a message."""
        first = error.errors(include_url=False, include_context=False)[0]
        place = tuple(str(part) for part in first["loc"])
        # A location continues into the value: item 2 of a list, the branch of an alternative.
        path = next(place[:length] for length in range(len(place), -1, -1) if place[:length] in self._values)
        expected = first["msg"].removeprefix("Value error, ").removeprefix("Input ")
        shown = self._format_value(path, self._values[path])
        return f"{self.source(*path)}: {'.'.join(path)}{shown}; it {expected}"

    def _store_value(self, path: SettingPath, value: object, source: str) -> None:
        """Store a value under its path; split sections and tables, so that places merge key by key."""
        path = self._former.get(path, path)
        if path in self._tables:
            for key, item in _table(".".join(path), value, source).items():
                self._values[*path, str(key)] = item
                self._sources[*path, str(key)] = source
        elif path in self._fields:
            if self._sources.get(path) == source:
                raise SettingsError(
                    f"{source}: {'.'.join(path)} is given by its former name, too; remove one"
                )
            self._values[path] = value
            self._sources[path] = source
        elif any(known[: len(path)] == path for known in self._fields):
            # A section whose every line is a comment is empty.
            if not isinstance(value, Mapping | None):
                where = ".".join(path) or "the top"
                raise SettingsError(
                    f"{source}: {where}{self._format_value(path, value)}; give a table of settings"
                )
            for key, item in (value or {}).items():
                self._store_value((*path, str(key)), item, source)
        else:
            name = ".".join(path)
            raise SettingsError(f"{source}: no setting is named {name!r}{nearest(name, self._names)}")

    def _format_value(self, path: SettingPath, value: object) -> str:
        """Return a wrong value as text, unless it is a secret or may contain one."""
        if path and any(known[: len(path)] == path and self._is_secret(known) for known in self._fields):
            return " cannot be used (not shown: it may be secret)"
        without_login = re.sub(r"//[^@\s]*@", "//…@", repr(value))
        return f" is {without_login}"

    def _is_secret(self, path: SettingPath) -> bool:
        """Return whether a setting is a secret, which the tree omits when it is written."""
        return path in self._fields and bool(self._fields[path].exclude)


def _read_value(file: str, source: str) -> str:
    """Return the content of a file without its last line break.

    :raises SettingsError: if it cannot be read, or is empty. The message does not contain the name, which
        may be the secret itself by mistake.
    """
    try:
        content = Path(file).expanduser().read_text(encoding="utf-8").rstrip("\r\n")
    except OSError as error:
        raise SettingsError(f"{source} names a file that cannot be read: {error.strerror}") from None
    except ValueError:
        raise SettingsError(f"{source} names a file that is not text in UTF-8") from None
    if not content.strip():
        raise SettingsError(f"{source} names an empty file; write the value into it")
    return content


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return PREFIX + name.replace(".", "_").upper()


def names() -> list[str]:
    """Return the full name of every setting, in the order of the tree."""
    return [".".join(path) for path in _fields(Settings)]


@cache
def _fields(root: type[BaseModel]) -> dict[SettingPath, FieldInfo]:
    """Return every setting by its path, in the order of the tree."""
    return dict(_walk(root))


def _require_agreement(settings: Settings, given: GivenSettings) -> None:
    """Reject values that are valid by themselves, but not together."""
    search, soak, analysis = settings.search, settings.soak, settings.analysis
    if search.strategy != "predictive" and search.trials_per_bound > 1:
        raise SettingsError(
            f"{given.source('search', 'trials_per_bound')}: search.trials_per_bound is "
            f"{search.trials_per_bound}; search.strategy {search.strategy} decides by 1 trial, "
            "predictive by several"
        )
    if analysis.samples == "trials" and analysis.outliers:
        raise SettingsError(
            f"{given.source('analysis', 'samples')}: analysis.samples is trials, but single bad runs are "
            "separated by the averages of runs; set analysis.outliers to false, or analysis.samples to runs"
        )
    if soak.trial_duration_s > soak.total_duration_s:
        path = ("soak", "total_duration_s")
        raise SettingsError(
            f"{given.source(*path)}: soak.total_duration_s is {soak.total_duration_s:g}; it should be at "
            f"least soak.trial_duration_s, {soak.trial_duration_s:g}"
        )


def _walk(section: type[BaseModel], path: SettingPath = ()) -> Iterator[tuple[SettingPath, FieldInfo]]:
    for name, field in section.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _walk(kind, (*path, name))
        else:
            yield (*path, name), field


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


def _without_content(error: yaml.MarkedYAMLError) -> str:
    """Return where and why a file is not valid YAML, without the line itself: it may contain a secret."""
    # YAML reads a secret that begins with ! or * as a tag or an alias, and quotes it.
    problem = re.sub(
        r"(tag|alias|anchor|handle) ['\"].*", r"\1 (put the value between quotes)", error.problem or ""
    )
    mark = error.problem_mark
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else problem
