"""Validation of requests beyond their syntax: the selected tests, the commit hash, and the duration.

The grammar validates the syntax. The checks of this module need the suites, the testbed's file and the
repository.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Protocol

from perftrend import watchlist
from perftrend.errors import UsageError
from perftrend.execution import estimate, selection
from perftrend.measure import specification
from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import ON_REQUEST, Settings
from perftrend.trigger import Refusal, RequestOptions, Trigger

_PLACEHOLDER_TAGS = "TAGS"
_PLACEHOLDER_HASH = "HASH"
_LONGEST_REASON = 300
_MRR = "mrr"
_SMALLEST = "64b"
"""The smallest frames, which most tests of a device use."""
_ONE_CORE = "1c"
"""The number of cores that all devices support."""
_OPERATORS = re.compile("(AND|OR|NOT)")
_PATTERN = re.compile(r"[*?\[\]]")


class Ancestry(Protocol):
    """The queries on the commits of the product that validation needs."""

    def resolve(self, text: str) -> str:
        """Return the whole hash of a commit. :raises UsageError: if it is unknown or ambiguous."""
        ...

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether one commit is an ancestor of another one."""
        ...


class InvalidRequestError(UsageError):
    """A request that cannot be executed; ``refusal`` is the reply to its author."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class RequestPlan:
    """The tests and the duration of a job. ``str()`` returns them as a phrase."""

    names: tuple[str, ...]
    """Names of the tests."""
    duration: str
    """Estimated duration in words."""
    usual_s: float | None = None
    """Estimated usual duration; None if it is not known."""
    narrower: Callable[[float], NarrowerRequest | None] = field(
        default=lambda _: None, compare=False, repr=False
    )
    """Returns a request for some of the tests that needs at most a duration in seconds, if there is one."""

    def __str__(self) -> str:
        count = len(self.names)
        return f"{count} test{'s' * (count != 1)}, {self.duration}" if count else self.duration


@dataclass(frozen=True, slots=True)
class NarrowerRequest:
    """A request for some of the tests of another one."""

    trigger: Trigger
    usual_s: float


@dataclass(frozen=True, slots=True)
class LimitExceeded:
    """Why a request is beyond a limit of :mod:`perftrend.execution.admission`."""

    reason: str
    room_s: float = 0.0
    """Duration of a request that would be accepted now; 0 if none would."""


COMMAND_PLAN = RequestPlan((), "the product's own command, duration unknown until a first job has ended")
"""The plan of a job whose tests are a command of the product's profile, without earlier jobs."""


def plan_command(earlier_s: Sequence[float]) -> RequestPlan:
    """Return the plan of a job whose tests are a command of the product's profile.

    :param earlier_s: durations of earlier jobs of the same kind, building included: nothing else shows
        how long a command takes.
    """
    if not earlier_s:
        return COMMAND_PLAN
    found = estimate.Duration(median(earlier_s), max(earlier_s))
    jobs = "the last job" if len(earlier_s) == 1 else f"the last {len(earlier_s)} jobs"
    return RequestPlan((), f"the product's own command, {found} (as {jobs} took)", found.usual_s)


def overrides(trigger: Trigger, settings: Settings) -> dict[str, object]:
    """Return the settings that a request overrides, by their full names.

    :raises InvalidRequestError: if its tags and lists cannot be used.
    """
    try:
        chosen = expressions(trigger, settings)
    except UsageError as error:
        raise _invalid_request(trigger, str(error), _without_lists_and_exclusions(trigger)) from None
    found: dict[str, object] = {
        "tags": chosen or None,
        "trial.duration_s": trigger.options.duration_s,
        "trial.multiplicity": trigger.options.multiplicity,
    }
    return {name: value for name, value in found.items() if value is not None}


def apply_overrides(settings: Settings, given: Mapping[str, object]) -> Settings:
    """Return settings in which those of the given full names are replaced."""
    for name, value in given.items():
        section, _, field = name.rpartition(".")
        if section:
            changed = getattr(settings, section).model_copy(update={field: value})
            settings = settings.model_copy(update={section: changed})
        else:
            settings = settings.model_copy(update={field: value})
    return settings


def plan(trigger: Trigger, settings: Settings, *, suites: Path) -> RequestPlan:
    """Return the plan of a request.

    :param settings: settings of the job, without the overrides of the request.
    :param suites: folder of the tests, unless the settings contain one.
    :raises InvalidRequestError: if it selects no test or too many, or has options that the job does not
        support.
    """
    if trigger.job == "analysis":
        return _of_analysis(trigger)
    merged = apply_overrides(settings, overrides(trigger, settings))
    return plan_of(trigger, merged, suites=suites, original=settings)


def plan_of(
    trigger: Trigger, settings: Settings, *, suites: Path, original: Settings | None = None
) -> RequestPlan:
    """Return the plan of a request, with settings that include its overrides.

    :param original: the settings without its overrides, if they are known.
    :raises InvalidRequestError: if it selects no test or too many.
    """
    keys = _select_within_limit(trigger, settings, settings.suites or suites)
    spec = specification.load(trigger.testbed, settings.testbeds)
    return RequestPlan(
        tuple(name for _, name in sorted(estimate.tests(keys))),
        estimate.describe(trigger.job, keys, spec, settings),
        estimate.of_job(trigger.job, keys, spec, settings).usual_s,
        lambda room_s: _find_narrower(trigger, original or settings, suites, spec, room_s),
    )


def _of_analysis(trigger: Trigger) -> RequestPlan:
    options = RequestOptions(dry_run=trigger.options.dry_run)
    bare = replace(trigger, include=(), exclude=(), lists=(), options=options)
    if bare != trigger:
        raise _invalid_request(trigger, "the analysis takes no tags and measures nothing", bare)
    about = f"about {estimate.format_duration(estimate.ANALYSIS_S)}"
    return RequestPlan((), about, estimate.ANALYSIS_S)


def _select_within_limit(trigger: Trigger, settings: Settings, suites: Path) -> frozenset[TraceKey]:
    spec = specification.load(trigger.testbed, settings.testbeds)
    try:
        keys = _select(settings, suites, spec)
    except UsageError as error:
        nearest = correct_tags(trigger, all_tags(suites)) if suites.exists() else trigger
        right = nearest if nearest != trigger else _with_placeholder(trigger)
        raise _invalid_request(trigger, str(error), right) from None
    count, most = len(estimate.tests(keys)), settings.trigger.maximum_tests
    if count > most:
        reason = f"it selects {count} tests, but a comment may start {most}; select fewer by tags"
        raise _invalid_request(trigger, reason, _narrower(trigger, settings, suites, spec))
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
        keys = _select(apply_overrides(settings, overrides(meant, settings)), suites, spec)
    except UsageError:
        return _with_placeholder(trigger)
    fits = len(estimate.tests(keys)) <= settings.trigger.maximum_tests
    return meant if fits else _with_placeholder(trigger)


def _find_narrower(
    trigger: Trigger, settings: Settings, suites: Path, spec: Specification, room_s: float
) -> NarrowerRequest | None:
    """Return the first of some narrower requests that needs at most a duration."""
    for each in _narrower_forms(trigger):
        try:
            changed = apply_overrides(settings, overrides(each, settings))
            keys = _select(changed, settings.suites or suites, spec)
        except UsageError:
            continue
        usual_s = estimate.of_job(each.job, keys, spec, changed).usual_s
        if usual_s <= room_s and len(estimate.tests(keys)) <= settings.trigger.maximum_tests:
            return NarrowerRequest(each, usual_s)
    return None


def _narrower_forms(trigger: Trigger) -> Iterator[Trigger]:
    """Yield requests that select no other tests and need less time, the most similar first."""
    options = replace(trigger.options, duration_s=None, multiplicity=None)
    if options != trigger.options:
        yield replace(trigger, options=options)
    if trigger.lists or any("OR" in each for each in trigger.include):
        # A further tag would not apply to all of them.
        return
    include = trigger.include
    for tag in (_MRR, _SMALLEST, _ONE_CORE):
        include = tuple(each if tag in each.lower() else f"{tag}AND{each}" for each in include)
        if include != trigger.include:
            yield replace(trigger, include=include)
            yield replace(trigger, include=include, options=options)


def refuse(trigger: Trigger, request_plan: RequestPlan, limit: LimitExceeded) -> Refusal:
    """Return the refusal of a request that is beyond a limit, with one that is not if there is one."""
    narrower = request_plan.narrower(limit.room_s) if limit.room_s else None
    if narrower:
        needs = f"the following needs about {estimate.format_duration(narrower.usual_s)}"
        return Refusal(str(trigger), f"{limit.reason}; {needs}", str(narrower.trigger))
    if limit.room_s and request_plan.names:
        return Refusal(str(trigger), f"{limit.reason}; select fewer tests", str(_with_placeholder(trigger)))
    return Refusal(str(trigger), limit.reason, "")


def check_hash(trigger: Trigger, revision: str, repository: Ancestry) -> None:
    """Check that the old commit of a bisection exists and is an ancestor of the patch set.

    :param revision: the commit of the patch set, which is in the repository.
    :raises InvalidRequestError: if not; the message describes the problem.
    """
    if trigger.old is None:
        return
    right = replace(trigger, old=_PLACEHOLDER_HASH)
    try:
        old = repository.resolve(trigger.old)
    except UsageError as error:
        raise _invalid_request(trigger, _change_number_hint(trigger.old) or str(error), right) from None
    if old == revision:
        reason = f"{trigger.old!r} is the patch set itself; write the hash of an older commit"
        raise _invalid_request(trigger, reason, right)
    if not repository.is_ancestor(old, revision):
        reason = f"{trigger.old!r} is not an ancestor of this patch set; write the hash of one"
        raise _invalid_request(trigger, reason, right)


def _change_number_hint(old: str) -> str:
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


def _invalid_request(trigger: Trigger, reason: str, right: Trigger) -> InvalidRequestError:
    plain = " ".join(reason.split())
    cut = plain if len(plain) <= _LONGEST_REASON else f"{plain[:_LONGEST_REASON]}…"
    return InvalidRequestError(Refusal(str(trigger), cut.rstrip("."), str(right)))


def expressions(trigger: Trigger, settings: Settings) -> tuple[str, ...]:
    """Return the tag expressions of a request; a test is selected if any of them matches.

    Exclusions are subtracted from each expression; test lists are those of the specification. If the result
    is empty, the job selects its default tests.

    :raises UsageError: if a list does not exist, or an exclusion contains NOT.
    """
    lists = tuple(each for name in trigger.lists for each in _expand_list(name, settings))
    included = (*trigger.include_patterns, *lists)
    excluded = trigger.exclude_patterns
    if not excluded:
        return tuple(dict.fromkeys(included))
    for each in excluded:
        if "NOT" in each:
            raise UsageError(f"'!{each}' contains NOT, which is not allowed in an exclusion")
    chosen = included or settings.tags or settings.cadences[settings.cadence]
    return tuple(dict.fromkeys("NOT".join((each, *_without(each, excluded))) for each in chosen))


def _without(expression: str, excluded: Sequence[str]) -> tuple[str, ...]:
    # Some tests are only selected by an expression that names them, which an exclusion must not do.
    named = (
        word
        for word in ON_REQUEST
        if word not in expression.lower()
        and word not in excluded
        and any(word in each.lower() for each in excluded)
    )
    return (*excluded, *named)


def _expand_list(name: str, settings: Settings) -> tuple[str, ...]:
    file = settings.analysis.specification
    if file is None:
        raise UsageError(f"no test list is named '#{name}'; there are none")
    return watchlist.load(file).find_list(name)


def all_tags(suites: Path) -> frozenset[str]:
    """Return all tags of the suites."""
    from robot.api import TestSuite  # noqa: PLC0415 - only wrong tags need the known ones

    return frozenset(tag for test in TestSuite.from_file_system(suites).all_tests for tag in test.tags)


def correct_tags(trigger: Trigger, tags: frozenset[str]) -> Trigger:
    """Return a request whose unknown tags are replaced by similar known ones, if there are any."""
    return replace(
        trigger,
        include=tuple(_correct_expression(each, tags) for each in trigger.include),
        exclude=tuple(_correct_expression(each, tags) for each in trigger.exclude),
    )


def _correct_expression(expression: str, tags: frozenset[str]) -> str:
    lowered = {tag.lower(): tag.lower() for tag in tags}
    parts = _OPERATORS.split(expression)
    for place in range(0, len(parts), 2):
        word = parts[place].lower()
        if not word or word in lowered or _PATTERN.search(word):
            continue
        close = difflib.get_close_matches(word, lowered, n=1)
        parts[place] = close[0] if close else parts[place]
    return "".join(parts)
