"""The settings: one typed tree, read from four places.

Each place overrides the ones before it::

    defaults  <  YAML file  <  environment  <  command line

A setting has one name everywhere, ``section.key`` or ``key``. In the YAML file it is nested by
section. In the environment it is ``PERFTREND_``, the section and the key in capitals, joined by
underscores: ``trial.duration_s`` is ``PERFTREND_TRIAL_DURATION_S``. A variable that is empty
is ignored. A list is written as words between spaces, a table as ``key=value`` words; a YAML file
may use YAML's own lists and tables instead.

A place with higher precedence replaces a list and merges a table key by key; null removes a key.
Relative paths start from the working directory.
"""

from __future__ import annotations

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
from perftrend.settings.tree import FILE_VARIABLE, ON_REQUEST, PREFIX, Settings, names, variable

__all__ = [
    "FILE_VARIABLE",
    "ON_REQUEST",
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
