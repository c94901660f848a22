"""The tree of all settings, and the checks that their values agree."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, Field, ValidationError

from perftrend.errors import SettingsError, nearest
from perftrend.settings.places import FILE_VARIABLE, GivenSettings, fields
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

FORMER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "bisect.inside": "bisect.search_equal_ends",
        "dashboard.behind_s": "dashboard.cache_max_age_s",
        "dashboard.kept_bytes": "dashboard.response_cache_bytes",
        "dashboard.watch": "dashboard.watch_folder",
        "gerrit.tell_culprit": "gerrit.notify_culprit",
        "listener.look_back_s": "listener.lookback_s",
    }
)
"""The present names of settings that were renamed; the next release removes the former ones."""
_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:/?#@]*):[^/?#]*@")

_SOAK = "soak"
NO_SOAK = f"NOT{_SOAK}"
"""Suffix that excludes soak tests; it is added to tag expressions that do not name them."""


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
    cadences: dict[str, Words] = {"nightly": ("mrrAND64b",), "weekly": ("ndrpdrAND64b",)}
    """Tag expressions by cadence; a test that matches any one of them is run."""
    tags: Words = ()
    """Tag expressions that select the tests instead of those of the cadence."""
    device_options: dict[str, Text] = {}
    """Options for the device, in addition to those of the testbed file."""
    official: bool = False
    """Whether a run counts as a nightly one even if options make it an experiment."""
    wait_s: Annotated[Number, Field(ge=0)] = 3600.0
    """How long to wait for a testbed that another job uses."""
    timeout_s: Seconds = 14400.0
    """Time after which the suites of a run are terminated."""
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

        A soak takes half an hour, so it is selected only if an expression names it.
        """
        chosen = self.tags or self.cadences[self.cadence]
        return tuple(each if _SOAK in each.lower() else f"{each}{NO_SOAK}" for each in chosen)

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


def names() -> list[str]:
    """Return the full name of every setting, in the order of the tree."""
    return [".".join(path) for path in fields(Settings)]


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
