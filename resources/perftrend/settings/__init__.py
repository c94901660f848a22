"""The settings: one typed tree, read from four places.

Each place outweighs the ones before it::

    defaults  <  YAML file  <  environment  <  command line

A setting has one name everywhere, ``section.key`` or ``key``. In the YAML file it is nested by
section. In the environment it is ``PERFTREND_``, the section and the key in capitals, joined by
underscores: ``trial.duration_s`` is ``PERFTREND_TRIAL_DURATION_S``. A variable that is empty
counts as not given. What is a list is written as words between spaces, what is a table as
``key=value`` words; a YAML file may use YAML's own lists and tables instead.

A list is replaced by a weightier place, a table is merged key by key, and null takes a key away.
Relative paths start from the working directory.
"""

from __future__ import annotations

from perftrend.settings.places import FILE_VARIABLE, PREFIX, variable
from perftrend.settings.sections import (
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
from perftrend.settings.tree import NO_SOAK, Settings, names

__all__ = [
    "FILE_VARIABLE",
    "NO_SOAK",
    "PREFIX",
    "AnalysisSettings",
    "BisectSettings",
    "DashboardSettings",
    "FetchSettings",
    "GerritSettings",
    "JenkinsSettings",
    "ListenerSettings",
    "MailSettings",
    "PerftestSettings",
    "ProjectSettings",
    "RetentionSettings",
    "SearchSettings",
    "Settings",
    "SoakSettings",
    "TrialSettings",
    "TriggerSettings",
    "names",
    "variable",
]
