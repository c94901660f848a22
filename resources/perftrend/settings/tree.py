"""The whole tree of settings, and what has to agree in it."""

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
from perftrend.settings.places import FILE_VARIABLE, Given, fields
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
from perftrend.settings.values import Folder, Number, Seconds, Text, Words

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_PASSWORD = re.compile(r"(?<=://)(?P<user>[^:/?#@]*):[^/?#]*@")

_SOAK = "soak"
NO_SOAK = f"NOT{_SOAK}"
"""What a tag expression ends with that a person did not want a soak from."""


class Settings(BaseModel):
    """Everything that can be set."""

    model_config = STRICT

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
    official: bool = False
    """Whether a run counts as a nightly one even if options make it an experiment."""
    wait_s: Annotated[Number, Field(ge=0)] = 3600.0
    """How long to wait for a testbed that another job uses."""
    timeout_s: Seconds = 14400.0
    """The suites of one run are ended after this time."""
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
        """The tag expressions that choose the tests of a run.

        A soak takes half an hour, so it is chosen only where an expression names it.
        """
        chosen = self.tags or self.cadences[self.cadence]
        return tuple(each if _SOAK in each.lower() else f"{each}{NO_SOAK}" for each in chosen)

    @property
    def for_builds(self) -> Settings:
        """These settings for a job that compares builds: 5 trials of 10 s, unless others are set.

        Long trials tell a change of the code from noise.

        Source: "Bisecting", section Temporary specifics.
        """
        usual = {"duration_s": 10.0, "multiplicity": 5}
        missing = {name: value for name, value in usual.items() if getattr(self.trial, name) is None}
        return self.model_copy(update={"trial": self.trial.model_copy(update=missing)})

    def as_yaml(self) -> str:
        """Return a settings file that gives these very settings, the secrets left out.

        Of the URLs of a database and of a repository that is the password.
        """
        told = self.model_dump(mode="json", exclude_none=True)
        told["store"] = _PASSWORD.sub(r"\g<user>@", self.store)
        if self.project.repository:
            told["project"]["repository"] = _PASSWORD.sub(r"\g<user>@", self.project.repository)
        return yaml.safe_dump(told, sort_keys=False)

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
        given = Given(cls)
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
    return [".".join(path) for path in fields(Settings)]


def _require_agreement(settings: Settings, given: Given) -> None:
    """Refuse what is right by itself, but not beside another setting."""
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
