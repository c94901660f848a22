"""Whether what a comment asks for can be done, and how much it is: tests, hash, time.

The grammar knows what a request looks like; here is what it takes the suites, the testbed's file and the
repository to know.
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
    """What has to be known of the commits of the product."""

    def resolve(self, text: str) -> str:
        """Return the whole hash of a commit. :raises UsageError: if it is unknown or ambiguous."""
        ...

    def is_ancestor(self, old: str, new: str) -> bool:
        """Tell whether one commit comes before another one."""
        ...


class UnfitError(UsageError):
    """A request that cannot be done; ``refusal`` is what its author is answered."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Plan:
    """What a job would do. ``str()`` tells it in half a sentence."""

    names: tuple[str, ...]
    """Of the tests."""
    takes: str
    """How long that takes."""

    def __str__(self) -> str:
        count = len(self.names)
        return f"{count} test{'s' * (count != 1)}, {self.takes}" if count else self.takes


def overrides(trigger: Trigger, settings: Settings) -> dict[str, object]:
    """Return the settings that follow from a request, by their full names.

    :raises UnfitError: if its tags and lists come to nothing that can be used.
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
    """Return settings with some of them, by full name, replaced."""
    for name, value in given.items():
        section, _, field = name.rpartition(".")
        if section:
            changed = getattr(settings, section).model_copy(update={field: value})
            settings = settings.model_copy(update={section: changed})
        else:
            settings = settings.model_copy(update={field: value})
    return settings


def plan(trigger: Trigger, settings: Settings, *, suites: Path) -> Plan:
    """Say how much a request is.

    :param settings: those that the job will have, without what the request says.
    :param suites: where the tests are, unless the settings say.
    :raises UnfitError: if it selects no test or too many, or asks for what the job does not do.
    """
    if trigger.job == "analysis":
        return _of_analysis(trigger)
    return plan_of(trigger, applied(settings, overrides(trigger, settings)), suites=suites)


def plan_of(trigger: Trigger, settings: Settings, *, suites: Path) -> Plan:
    """Say how much a request is, with settings that have what it says.

    :raises UnfitError: if that is no test, or too many.
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
        reason = f"it selects {count} tests, and a comment may start {most}; choose fewer by tags"
        raise _refused(trigger, reason, _narrower(trigger, settings, suites, spec))
    return keys


def _select(settings: Settings, suites: Path, spec: Specification) -> frozenset[TraceKey]:
    return selection.select(
        suites, settings.expressions, testbed=spec.name, tags=selection.tags_of(spec, settings)
    )


def _narrower(trigger: Trigger, settings: Settings, suites: Path, spec: Specification) -> Trigger:
    """Return the request with ``mrr``, which is what people forget, where that makes it small enough."""
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
    """Make sure that a bisection can begin: there is that commit, and the patch set comes after it.

    :param revision: the commit of the patch set, which the repository has.
    :raises UnfitError: if not, saying what the hash lacks.
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
        reason = f"{trigger.old!r} is no ancestor of this patch set; write the hash of a commit that is"
        raise _refused(trigger, reason, right)


def _numbered(old: str) -> str:
    """Say that a hash that is none looks like the number of a change; empty: it does not."""
    if not old.isdecimal():
        return ""
    number = f"{old!r} is no commit of the repository, and looks like the number of a change"
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
