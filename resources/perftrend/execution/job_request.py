"""The request that started a job, and what the job stores in it while it runs.

Jenkins and the listener pass a comment on, base64-encoded, in ``GERRIT_EVENT_COMMENT_TEXT``, so that no
shell or log processes text that a user typed. Other variables identify the change.
:mod:`perftrend.trigger` parses the request. Jenkins starts a build for each line that begins with a
trigger word, so the line may also be a sentence or a request with mistakes.

A job stores what it does and has found in its request, so that pages can show it. A store that cannot be
written does not end a job: its result is reported and archived in any case.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from perftrend import console, trigger
from perftrend.errors import EXIT_PASS, StoreError, UsageError
from perftrend.execution import request_validation
from perftrend.measure import specification
from perftrend.settings import Settings
from perftrend.trigger import OptionLimits, Refusal, Trigger, patterns_of

if TYPE_CHECKING:
    from perftrend.store import Store


VARIABLE = "GERRIT_EVENT_COMMENT_TEXT"
LONGEST = 65536
"""Limit in characters of base64; a Gerrit comment has at most a quarter of this."""

_FORMS: Mapping[str, str] = {
    "GERRIT_CHANGE_NUMBER": r"[1-9][0-9]{0,17}",
    "GERRIT_PATCHSET_NUMBER": r"[1-9][0-9]{0,8}",
    "GERRIT_PATCHSET_REVISION": r"[0-9a-f]{40}|[0-9a-f]{64}",
    "GERRIT_REFSPEC": r"refs/changes/[0-9]{2}/[0-9]{1,18}/[0-9]{1,9}",
    "GERRIT_PROJECT": r"(?![-/.])[^\x00-\x1f\x7f]{1,255}",
    "GERRIT_BRANCH": r"(?![-/.])[^\x00-\x1f\x7f]{1,255}",
    "GERRIT_EVENT_HASH": r"[\w-]{1,128}",
}
"""Valid forms of the other variables; Gerrit sends no other values."""

_BY = "bisection"
"""Who assigns an item, in the activity log."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The validated trigger words, testbeds and limits of the settings."""

    words: Mapping[str, str]
    testbeds: tuple[str, ...]
    limits: OptionLimits

    @classmethod
    def of(cls, settings: Settings) -> Grammar:
        """Return the grammar of the settings.

        :raises SettingsError: if a trigger word is not valid, or a testbed has no file.
        """
        for name in settings.trigger.testbeds:
            specification.load(name, settings.testbeds)
        shortest, fewest = trigger.DEFAULT_LIMITS.duration_s[0], trigger.DEFAULT_LIMITS.multiplicity[0]
        return cls(
            words=trigger.validate_words(settings.trigger.words),
            testbeds=settings.trigger.testbeds or tuple(specification.names(settings.testbeds)),
            limits=OptionLimits(
                duration_s=(shortest, max(shortest, settings.trigger.maximum_duration_s)),
                multiplicity=(fewest, settings.trigger.maximum_multiplicity),
            ),
        )

    def parse(self, texts: str | Iterable[str]) -> list[Trigger | Refusal]:
        """Return the triggers and refusals in the texts of a review."""
        return trigger.parse(texts, words=self.words, testbeds=self.testbeds, limits=self.limits)


class NoRequestError(UsageError):
    """A line begins with the trigger word but is a sentence, so there is nothing to do."""

    exit_code = EXIT_PASS


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job that a comment requests, and the patch set that the comment is on.

    Gerrit Trigger sets all variables. If a build is started by hand with only the text of a comment, the
    change is unknown: None and empty texts.
    """

    trigger: Trigger
    change: int | None = None
    patch_set: int | None = None
    revision: str = ""
    """The commit of the patch set."""
    ref: str = ""
    """The ref to fetch, ``refs/changes/34/1234/5``."""
    project: str = ""
    branch: str = ""
    request: str = ""
    """Identifier of the request; a restarted build has the same one."""
    triggers: tuple[Trigger, ...] = ()
    """All lines of the comment that request this job; the first is ``trigger``."""
    overrides: Mapping[str, object] = field(default_factory=dict, hash=False)
    """The settings that follow from the request, by full name; options override them."""

    @property
    def is_dry_run(self) -> bool:
        """Whether to report only what would be measured."""
        return self.trigger.options.dry_run


def read_request(environment: Mapping[str, str], job: str, settings: Settings) -> JobRequest | None:
    """Return the request of the comment for a job on the testbed of the settings.

    Several lines that request the same job are one request, which selects the tests of all of them.

    :param job: one of :data:`perftrend.trigger.JOBS`.
    :returns: None if no comment started the build.
    :raises NoRequestError: if lines begin with the trigger word, but none of them is a request.
    :raises UsageError: if the comment cannot be decoded, does not request this job on this testbed, or
        requests something impossible; the message shows the correct form.
    """
    encoded = environment.get(VARIABLE, "")
    if not encoded.strip():
        return None
    text = _decode(encoded)
    requests = Grammar.of(settings).parse(text)
    heads = _heads(job, settings)
    if not heads:
        raise UsageError(
            f"{VARIABLE}: no trigger word starts {job} on {settings.testbed}; add one to trigger.words"
        )
    refused = [str(each) for each in requests if isinstance(each, Refusal) and _is_meant(each, heads)]
    if refused:
        raise UsageError(f"{VARIABLE}: {refused[0]}")
    wanted = [
        each
        for each in requests
        if isinstance(each, Trigger) and (each.job, each.testbed) == (job, settings.testbed)
    ]
    if not wanted and any(_begins_with(line, heads) for line in text.splitlines()):
        raise NoRequestError(
            f"{VARIABLE}: {heads[0]} is in a sentence, quoted text or code, and is not a request"
        )
    if not wanted:
        raise UsageError(
            f"{VARIABLE}: no line requests {job} on {settings.testbed}; write {heads[0]}, optionally "
            f"followed by tag expressions: {heads[0]} mrrAND64b"
        )
    try:
        return _merge_triggers(wanted, environment, settings)
    except request_validation.InvalidRequestError as unfit:
        raise UsageError(f"{VARIABLE}: {unfit}") from None


def _heads(job: str, settings: Settings) -> list[str]:
    """Return the words that begin a line that requests a job on the testbed."""
    patterns = patterns_of(settings.trigger.words, job, settings.testbed)
    return [pattern.replace("{testbed}", settings.testbed) for pattern in patterns]


def _is_meant(refusal: Refusal, heads: Sequence[str]) -> bool:
    """Return whether a refused line was meant for this job on this testbed."""
    return _begins_with(refusal.line, heads)


def _begins_with(line: str, heads: Sequence[str]) -> bool:
    return line.strip().lower().startswith(tuple(head.lower() for head in heads))


def _merge_triggers(
    wanted: Sequence[Trigger], environment: Mapping[str, str], settings: Settings
) -> JobRequest:
    first = wanted[0]
    for other in wanted[1:]:
        if (other.old, other.options) != (first.old, first.options):
            raise UsageError(
                f"{VARIABLE}: '{first}' and '{other}' are two jobs; write them in two comments, or give "
                "both the same hash and options"
            )
    found = [request_validation.overrides(each, settings) for each in wanted]
    tags = [each.get("tags", ()) for each in found]
    # A line without tags requests the job's default selection, which includes that of any other line.
    together = tuple(dict.fromkeys(tag for some in tags for tag in _texts(some))) if all(tags) else ()
    overrides = {**found[0], "tags": together}
    variables = {name: _read_variable(environment, name) for name in _FORMS}
    return JobRequest(
        trigger=first,
        triggers=tuple(wanted),
        change=_number(variables["GERRIT_CHANGE_NUMBER"]),
        patch_set=_number(variables["GERRIT_PATCHSET_NUMBER"]),
        revision=variables["GERRIT_PATCHSET_REVISION"],
        ref=variables["GERRIT_REFSPEC"],
        project=variables["GERRIT_PROJECT"],
        branch=variables["GERRIT_BRANCH"],
        request=variables["GERRIT_EVENT_HASH"],
        overrides={name: value for name, value in overrides.items() if value},
    )


def _texts(tags: object) -> tuple[str, ...]:
    return tuple(map(str, tags)) if isinstance(tags, tuple) else ()


def _read_variable(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "").strip()
    if value and not re.fullmatch(_FORMS[name], value, re.ASCII):
        raise UsageError(
            f"{name} is {value[:100]!r}, which is not from Gerrit; leave it to Jenkins or the listener"
        )
    return value


def _number(text: str) -> int | None:
    return int(text) if text else None


def _decode(encoded: str) -> str:
    if len(encoded) > LONGEST:
        raise UsageError(f"{VARIABLE}: {len(encoded)} characters are too many for a comment in Gerrit")
    try:
        return base64.b64decode("".join(encoded.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        raise UsageError(
            f"{VARIABLE} is not UTF-8 text in base64; set the job's comment-text parameter mode to BASE64"
        ) from None


@dataclass(frozen=True, slots=True)
class NamedCulprit:
    """A commit that a bisection has found."""

    commit: str
    subject: str
    author: str
    """Name of its author."""
    deed: str
    """What it did, with the probability: ``made 1 of 2 tests slower by 11 %…``."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a job has found."""

    sentence: str
    """The verdict in one sentence."""
    culprits: tuple[NamedCulprit, ...] = ()
    """The most important one first."""
    link: str = ""
    """Address of the report; empty if it has none."""

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> JobResult:
        """Return the result that :func:`record_result` has stored."""
        culprits = tuple(NamedCulprit(**each) for each in stored["culprits"])
        return cls(stored["sentence"], culprits, stored["link"])


def record_progress(job_request: JobRequest | None, settings: Settings, text: str) -> None:
    """Store what the job of a request does now; do nothing if a person has started the job."""
    _record(job_request, settings, lambda store, key: store.requests.record_progress(key, text))


def record_result(job_request: JobRequest | None, settings: Settings, result: JobResult) -> None:
    """Store what the job of a request has found.

    The author of the only culprit becomes the owner of the item that the request was made for.
    """

    def write(store: Store, key: str) -> None:
        store.requests.record_result(key, asdict(result))
        request = store.requests.with_keys([key]).get(key)
        if request and request.item is not None and len(result.culprits) == 1:
            store.alerts.items.assign(request.item, result.culprits[0].author, user=_BY)

    _record(job_request, settings, write)


def _record(job_request: JobRequest | None, settings: Settings, write: Callable[[Store, str], None]) -> None:
    if job_request is None or not job_request.request:
        return
    from perftrend.store import Store  # noqa: PLC0415 - the database loads slowly

    try:
        if Store.may_be_there(settings.store):
            with Store.open(settings.store) as store:
                write(store, job_request.request)
    except StoreError as error:
        console.warn(f"the dashboard does not get to know the state of this job: {error}")
