"""Every parameter of a Jenkins job is an option of its script, and every option a parameter."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from perftrend import settings
from perftrend.execution import job_request
from perftrend.settings import Settings

SCRIPTS = {
    "perftrend-trending-nightly-2n-clx": "trending",
    "perftrend-trending-weekly-2n-clx": "trending",
    "perftrend-analysis-2n-clx": "analysis",
    "perftrend-perftest-2n-clx": "perftest",
    "perftrend-bisect-2n-clx": "bisect",
}
NO_PARAMETERS = {
    "trending": {
        "--archive": "the artifacts are taken from there",
        "--report": "the artifacts are taken from there",
        "--repeat": "a build is one run",
        "--no-analysis": "the builder gives it",
        "--method": "the analysis job judges",
        "--window": "the analysis job judges",
        "--regression": "the analysis job judges",
    },
    "analysis": {
        "--report": "the artifacts are taken from there",
        "--json": "the report is archived as JSON, too",
    },
    "perftest": {
        "--new": "the change is measured",
        "--old": "the change's parent is measured",
        "--profile": "the settings file says what the product is",
        "--measure": "the settings file says how the product is measured",
        "--build": "the settings file says how the product is built",
        "--unit": "the settings file says how the product is measured",
        "--better": "the settings file says how the product is measured",
        "--parameter": "the settings file says what the product is",
        "--repository": "the settings file says where the product is",
        "--rounds": "the settings file says how much a verdict may cost",
        "--archive": "the artifacts are taken from there",
        "--report": "the artifacts are taken from there",
        "--no-post": "a comment is answered",
        "--dry-run": "the comment says it",
        "--resume": "a build goes on under its number",
    },
    "bisect": {
        "--example": "it shows a person what a bisection is",
        "--profile": "the settings file says what the product is",
        "--measure": "the settings file says how the product is measured",
        "--build": "the settings file says how the product is built",
        "--unit": "the settings file says how the product is measured",
        "--better": "the settings file says how the product is measured",
        "--parameter": "the settings file says what the product is",
        "--repository": "the settings file says where the product is",
        "--archive": "the artifacts are taken from there",
        "--report": "the artifacts are taken from there",
        "--no-post": "a comment is answered",
        "--dry-run": "the comment says it",
    },
}
"""Options that Jenkins does not ask for, and why."""

SETTINGS_ONLY = {"PERFTREND_MAIL_RECORD": "people do not change it from run to run, but workspaces do"}
"""Parameters that are a setting without an option, and why."""

GERRIT = {
    "GERRIT_BRANCH",
    "GERRIT_CHANGE_NUMBER",
    "GERRIT_EVENT_COMMENT_TEXT",
    "GERRIT_EVENT_HASH",
    "GERRIT_PATCHSET_NUMBER",
    "GERRIT_PATCHSET_REVISION",
    "GERRIT_PROJECT",
    "GERRIT_REFSPEC",
}
"""What Gerrit Trigger fills in."""


class Loaded(Exception):  # noqa: N818 - it is no error
    """Carries what a job would have made settings of."""

    def __init__(self, overrides: Mapping[str, object]) -> None:
        super().__init__("loaded")
        self.names = {name for name, value in overrides.items() if value is not None}


def parameters(job: Any) -> dict[str, Any]:
    return {entry.findtext("name"): entry for entry in job.find(".//parameterDefinitions")}


def actions(script: str) -> Iterator[argparse.Action]:
    for action in importlib.import_module(f"jobs.{script}").parser()._actions:
        if action.dest != "help":
            yield action


def setting(script: str, action: argparse.Action) -> str | None:
    """Return the setting that an option gives, by giving it."""
    sample = next(iter(action.choices), "") if action.choices else "4"
    value = "key=4" if action.dest in {"device_option", "parameter", "parameters"} else sample
    arguments = [action.option_strings[0], *([] if action.nargs == 0 else [value])]
    with pytest.raises(Loaded) as caught:
        importlib.import_module(f"jobs.{script}").main(arguments)
    assert len(caught.value.names) <= 1
    return next(iter(caught.value.names), None)


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a function from a script to the variable of each of its options, None where it has none."""

    def load(file: str | None, *_: object, overrides: Mapping[str, object] | None = None) -> None:
        raise Loaded(overrides or {})

    monkeypatch.setattr(Settings, "load", load)

    def of(script: str) -> dict[str, str | None]:
        found: dict[str, str | None] = {}
        for action in actions(script):
            name = setting(script, action)
            found[action.option_strings[0]] = settings.variable(name) if name else None
        return {**found, "--settings": settings.FILE_VARIABLE}

    return of


@pytest.mark.parametrize(("name", "script"), SCRIPTS.items())
def test_every_option_is_a_parameter(name: str, script: str, jobs: dict[str, Any], variables: Any) -> None:
    asked = set(parameters(jobs[name]))

    missing = {
        option
        for option, variable in variables(script).items()
        if variable not in asked and option not in NO_PARAMETERS[script]
    }

    assert set() == missing


@pytest.mark.parametrize(("name", "script"), SCRIPTS.items())
def test_every_parameter_is_an_option(name: str, script: str, jobs: dict[str, Any], variables: Any) -> None:
    asked = set(parameters(jobs[name])) - GERRIT - set(SETTINGS_ONLY)

    assert set(SETTINGS_ONLY) <= {settings.variable(each) for each in settings.names()}
    assert set() == asked - set(variables(script).values())


@pytest.mark.parametrize("script", NO_PARAMETERS)
def test_every_exception_is_an_option_without_a_parameter(
    script: str, jobs: dict[str, Any], variables: Any
) -> None:
    (name, *_) = (name for name, started in SCRIPTS.items() if started == script)
    known = variables(script)

    assert set() == set(NO_PARAMETERS[script]) - set(known)
    assert not {known[option] for option in NO_PARAMETERS[script]} & set(parameters(jobs[name]))


def test_every_job_is_looked_at(jobs: dict[str, Any]) -> None:
    assert {*SCRIPTS, "perftrend-verify"} == set(jobs)


def test_the_comment_is_a_parameter_wherever_comments_start_a_job(jobs: dict[str, Any]) -> None:
    listening = {name for name, job in jobs.items() if job.find(".//commentAddedCommentContains") is not None}

    assert len(listening) == 5
    for name in listening:
        assert set(parameters(jobs[name])) >= GERRIT >= {job_request.VARIABLE}


def test_every_parameter_says_what_it_is(jobs: dict[str, Any]) -> None:
    for name, job in jobs.items():
        for parameter, entry in parameters(job).items():
            assert re.fullmatch(r"[A-Z][^{}]+\.", entry.findtext("description")), f"{name} {parameter}"


def test_empty_is_not_given(jobs: dict[str, Any]) -> None:
    """What a person leaves alone is what the settings say: no default of Jenkins outweighs their file."""
    given = {"PERFTREND_TESTBED", "PERFTREND_STORE", "PERFTREND_CADENCE", "PERFTREND_MAIL_RECORD"}

    for name in SCRIPTS:
        for parameter, entry in parameters(jobs[name]).items():
            default = entry.findtext("defaultValue") or entry.findtext("choices/a/string") or ""
            assert bool(default) == (parameter in given), f"{name} {parameter}"


def test_choices_are_those_of_the_options(jobs: dict[str, Any]) -> None:
    asked = parameters(jobs["perftrend-analysis-2n-clx"])
    known = {action.option_strings[0]: action.choices for action in actions("analysis")}

    for option, variable in {
        "--method": "PERFTREND_ANALYSIS_METHOD",
        "--formula": "PERFTREND_ANALYSIS_FORMULA",
        "--regression": "PERFTREND_ANALYSIS_REGRESSION",
    }.items():
        assert ["", *(known[option] or ())] == [item.text or "" for item in asked[variable].iter("string")]


def test_what_is_chosen_can_be_used(jobs: dict[str, Any]) -> None:
    """Every choice, and every default that is no path of Jenkins's, makes settings."""
    # All trials are grouped only if single bad runs are not separated.
    agreeing = {"PERFTREND_ANALYSIS_OUTLIERS": "false"}
    for name in SCRIPTS:
        for parameter, entry in parameters(jobs[name]).items():
            for choice in entry.iter("string"):
                Settings.load(environment=agreeing | {parameter: choice.text or ""})
