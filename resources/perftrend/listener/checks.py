"""Validation of requests beyond their syntax: the selected tests, the commit hash, and the duration.

The grammar validates the syntax. The checks of this module need the suites, the testbed's file and the
repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from perftrend.errors import UsageError
from perftrend.keywords import selection
from perftrend.listener import estimate, tags
from perftrend.measure import specification
from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.trigger import Options, Refusal, Trigger

_PLACEHOLDER_TAGS = "TAGS"
_PLACEHOLDER_HASH = "HASH"
_LONGEST_REASON = 300
_MRR = "mrr"


class Ancestry(Protocol):
    """The queries on the commits of the product that validation needs."""

    def resolve(self, text: str) -> str:
        """Return the whole hash of a commit. :raises UsageError: if it is unknown or ambiguous."""
        ...

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether one commit is an ancestor of another one."""
        ...


class UnfitError(UsageError):
    """A request that cannot be executed; ``refusal`` is the reply to its author."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Plan:
    """The tests and the duration of a job. ``str()`` returns them as a phrase."""

    names: tuple[str, ...]
    """Names of the tests."""
    takes: str
    """Estimated duration in words."""

    def __str__(self) -> str:
        count = len(self.names)
        return f"{count} test{'s' * (count != 1)}, {self.takes}" if count else self.takes


def overrides(trigger: Trigger, settings: Settings) -> dict[str, object]:
    """Return the settings that a request overrides, by their full names.

    :raises UnfitError: if its tags and lists cannot be used.
    """
    try:
        chosen = tags.expressions(trigger, settings)
    except UsageError as error:
        raise _refused(trigger, str(error), _without_lists_and_exclusions(trigger)) from None
    found: dict[str, object] = {
        "tags": chosen or None,
        "trial.duration_s": trigger.options.duration_s,
        "trial.multiplicity": trigger.options.multiplicity,
    }
    return {name: value for name, value in found.items() if value is not None}


def applied(settings: Settings, given: Mapping[str, object]) -> Settings:
    """Return settings in which those of the given full names are replaced."""
    for name, value in given.items():
        section, _, field = name.rpartition(".")
        if section:
            changed = getattr(settings, section).model_copy(update={field: value})
            settings = settings.model_copy(update={section: changed})
        else:
            settings = settings.model_copy(update={field: value})
    return settings


def plan(trigger: Trigger, settings: Settings, *, suites: Path) -> Plan:
    """Return the plan of a request.

    :param settings: settings of the job, without the overrides of the request.
    :param suites: folder of the tests, unless the settings contain one.
    :raises UnfitError: if it selects no test or too many, or has options that the job does not support.
    """
    if trigger.job == "analysis":
        return _of_analysis(trigger)
    return plan_of(trigger, applied(settings, overrides(trigger, settings)), suites=suites)


def plan_of(trigger: Trigger, settings: Settings, *, suites: Path) -> Plan:
    """Return the plan of a request, with settings that include its overrides.

    :raises UnfitError: if it selects no test or too many.
    """
    keys = _selected(trigger, settings, settings.suites or suites)
    spec = specification.load(trigger.testbed, settings.testbeds)
    return Plan(
        tuple(name for _, name in sorted(estimate.tests(keys))),
        estimate.told(trigger.job, keys, spec, settings),
    )


def _of_analysis(trigger: Trigger) -> Plan:
    options = Options(dry_run=trigger.options.dry_run)
    bare = replace(trigger, include=(), exclude=(), lists=(), options=options)
    if bare != trigger:
        raise _refused(trigger, "the analysis takes no tags and measures nothing", bare)
    return Plan((), f"about {estimate.worded(estimate.ANALYSIS_S)}")


def _selected(trigger: Trigger, settings: Settings, suites: Path) -> frozenset[TraceKey]:
    spec = specification.load(trigger.testbed, settings.testbeds)
    try:
        keys = _select(settings, suites, spec)
    except UsageError as error:
        nearest = tags.mended(trigger, tags.known(suites)) if suites.exists() else trigger
        right = nearest if nearest != trigger else _with_placeholder(trigger)
        raise _refused(trigger, str(error), right) from None
    count, most = len(estimate.tests(keys)), settings.trigger.maximum_tests
    if count > most:
        reason = f"it selects {count} tests, but a comment may start {most}; select fewer by tags"
        raise _refused(trigger, reason, _narrower(trigger, settings, suites, spec))
    return keys


def _select(settings: Settings, suites: Path, spec: Specification) -> frozenset[TraceKey]:
    return selection.select(
        suites, settings.expressions, testbed=spec.name, tags=selection.tags_of(spec, settings)
    )


def _narrower(trigger: Trigger, settings: Settings, suites: Path, spec: Specification) -> Trigger:
    """Return a correct form of a request that selects too many tests.

    Users often forget the tag ``mrr``, so it is added if that selects few enough tests; otherwise the tags
    are replaced by a placeholder.
    """
    if any(_MRR in each.lower() for each in trigger.include) or not trigger.include:
        return _with_placeholder(trigger)
    meant = replace(trigger, include=tuple(f"{_MRR}AND{each}" for each in trigger.include))
    try:
        keys = _select(applied(settings, overrides(meant, settings)), suites, spec)
    except UsageError:
        return _with_placeholder(trigger)
    fits = len(estimate.tests(keys)) <= settings.trigger.maximum_tests
    return meant if fits else _with_placeholder(trigger)


def check_hash(trigger: Trigger, revision: str, repository: Ancestry) -> None:
    """Check that the old commit of a bisection exists and is an ancestor of the patch set.

    :param revision: the commit of the patch set, which is in the repository.
    :raises UnfitError: if not; the message describes the problem.
    """
    if trigger.old is None:
        return
    right = replace(trigger, old=_PLACEHOLDER_HASH)
    try:
        old = repository.resolve(trigger.old)
    except UsageError as error:
        raise _refused(trigger, _numbered(trigger.old) or str(error), right) from None
    if old == revision:
        reason = f"{trigger.old!r} is the patch set itself; write the hash of an older commit"
        raise _refused(trigger, reason, right)
    if not repository.is_ancestor(old, revision):
        reason = f"{trigger.old!r} is not an ancestor of this patch set; write the hash of one"
        raise _refused(trigger, reason, right)


def _numbered(old: str) -> str:
    """Return a message if an unknown hash looks like the number of a change, otherwise an empty string."""
    if not old.isdecimal():
        return ""
    number = f"{old!r} is not a commit of the repository, but looks like the number of a change"
    return f"{number}; write the hash of its commit"


def _with_placeholder(trigger: Trigger) -> Trigger:
    return replace(trigger, include=(_PLACEHOLDER_TAGS,), lists=())


def _without_lists_and_exclusions(trigger: Trigger) -> Trigger:
    simple = replace(trigger, lists=(), exclude=tuple(each for each in trigger.exclude if "NOT" not in each))
    return simple if simple.include else replace(simple, include=(_PLACEHOLDER_TAGS,))


def _refused(trigger: Trigger, reason: str, right: Trigger) -> UnfitError:
    plain = " ".join(reason.split())
    cut = plain if len(plain) <= _LONGEST_REASON else f"{plain[:_LONGEST_REASON]}…"
    return UnfitError(Refusal(str(trigger), cut.rstrip("."), str(right)))
