"""Builds, read from the JSON of a Jenkins, and the paths of jobs, views and artifacts below its address.

In a path, a name is quoted as a whole, so that a question mark or a slash in it is part of the name. Names
come from users and from servers; names such as ``..`` that would lead to another path are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from perftrend.errors import ServiceError, UsageError

TREE = (
    "number,queueId,result,building,timestamp,duration,description,"
    "actions[parameters[name,value]],artifacts[relativePath]"
)
"""The fields of a build that are requested; no others are sent."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a build archived."""

    path: str
    """Relative to the archive, as sent by the server: it may try to leave any folder."""
    url: str


@dataclass(frozen=True, slots=True)
class JenkinsBuild:
    """One build of a job."""

    job: str
    """Full name, with its folders."""
    number: int
    result: str | None
    """``SUCCESS``, ``UNSTABLE``, ``FAILURE``, ``NOT_BUILT`` or ``ABORTED``; None while it runs."""
    building: bool
    started: datetime
    """UTC."""
    duration_s: float
    """0 while it runs."""
    parameters: Mapping[str, str] = field(default_factory=dict, hash=False)
    artifacts: tuple[Artifact, ...] = ()
    url: str = ""
    """Its page, with a slash at the end."""
    description: str = ""
    queue_item: int | None = None
    """Its number in the queue; None if the server does not report it."""

    @property
    def is_finished(self) -> bool:
        """Whether its result is final."""
        return not self.building and self.result is not None


def read_build(job: str, job_url: str, fields: Mapping[str, Any]) -> JenkinsBuild:
    """Return a build from its JSON.

    :param job: full name of the job.
    :param job_url: URL at which the job was found, which may differ from the URL that the server reports.
    :param fields: decoded JSON of the tree :data:`TREE`.
    :raises ServiceError: if it is not a valid build.
    """
    try:
        number = _number(fields)
        url = f"{job_url}/{number}/"
        item = fields.get("queueId")
        paths = [text_of(artifact["relativePath"]) for artifact in fields.get("artifacts") or ()]
        return JenkinsBuild(
            job=job,
            number=number,
            result=_word(fields.get("result")),
            building=fields.get("building") is True,
            started=moment_of(fields["timestamp"]),
            duration_s=max(0, whole_of(fields.get("duration") or 0)) / 1000,
            parameters=parameters_of(fields.get("actions") or ()),
            artifacts=tuple(Artifact(path, url + artifact_path(path)) for path in paths),
            url=url,
            description=text_of(fields.get("description") or ""),
            # For a build from before Jenkins had such numbers, the value is -1.
            queue_item=whole_of(item) if item is not None and whole_of(item) > 0 else None,
        )
    except (TypeError, ValueError, KeyError, AttributeError, OverflowError, OSError):
        raise _no_build(job_url) from None


def number_of(job_url: str, fields: Mapping[str, Any]) -> int:
    """Return the number of a build from JSON that contains only the number."""
    try:
        return _number(fields)
    except (TypeError, ValueError, KeyError):
        raise _no_build(job_url) from None


def has_parameters(build: JenkinsBuild, wanted: Mapping[str, str]) -> bool:
    """Return whether a build was started with these parameters, as far as the server shows them."""
    # A build that has just started is shown without parameters for a moment: it may be any build.
    if wanted and not build.parameters and not build.is_finished:
        return False
    # A server trims some kinds of text, and does not show passwords.
    return all(build.parameters.get(name, value).strip() == value.strip() for name, value in wanted.items())


def parameters_of(actions: Iterable[Any]) -> Mapping[str, str]:
    """Return the parameters in the server's ``actions``."""
    return dict(_parameters(actions))


def moment_of(value: object) -> datetime:
    """Return a time in UTC from milliseconds since 1970."""
    return datetime.fromtimestamp(whole_of(value) / 1000, UTC)


def whole_of(value: object) -> int:
    """Return an integer.

    :raises TypeError: if the value is not an integer.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(value)
    return value


def text_of(value: object) -> str:
    """Return a string that can be encoded.

    :raises TypeError: if the value is not a string.
    """
    if not isinstance(value, str):
        raise TypeError(value)
    # A single surrogate cannot be written to a file or a terminal.
    return value.encode("utf-8", "replace").decode("utf-8")


def _no_build(job_url: str) -> ServiceError:
    return ServiceError(f"{job_url}: the response is not a valid build; is jenkins.url right?")


def _parameters(actions: Iterable[Any]) -> Iterator[tuple[str, str]]:
    for action in actions:
        for parameter in (action or {}).get("parameters") or ():
            value = parameter.get("value")
            if isinstance(value, bool):
                yield text_of(parameter["name"]), str(value).lower()
            elif isinstance(value, str | int | float):
                yield text_of(parameter["name"]), str(value)


def _number(fields: Mapping[str, Any]) -> int:
    number = whole_of(fields["number"])
    if number < 1:
        raise ValueError(number)
    return number


def _word(value: object) -> str | None:
    if value is not None and not re.fullmatch(r"[A-Z_]{1,40}", text_of(value)):
        raise ValueError(value)
    return value if value is None else text_of(value)


def job_path(name: str) -> str:
    """Return the path of a job or a folder, ``job/team/job/nightly``, without a slash at its ends.

    :param name: the full name with its folders: ``team/nightly``; empty for the top.
    :raises UsageError: if the name is not valid.
    """
    return "/".join(f"job/{_part(part, name)}" for part in name.split("/")) if name else ""


def view_path(name: str) -> str:
    """Return the path of a view, which may be nested in other views: ``view/team/view/nightly``."""
    return "/".join(f"view/{_part(part, name)}" for part in name.split("/")) if name else ""


def artifact_path(path: str) -> str:
    """Return the path of an artifact below its build. Opening it checks that the URL is on the server."""
    return "artifact/" + "/".join(quote(part, safe="*") for part in path.split("/"))


def is_below(url: str, base: str) -> bool:
    """Return whether a URL is below another one, also if it is percent-encoded."""
    if not url.startswith(f"{base}/"):
        return False
    parts = unquote(urlsplit(url).path).replace("\\", "/").split("/")
    return not {".", ".."} & set(parts)


def is_name(text: object) -> bool:
    """Return whether a text is a valid name of a job, a folder or a view."""
    return isinstance(text, str) and text.isprintable() and text not in ("", ".", "..") and "/" not in text


def _part(part: str, name: str) -> str:
    if not is_name(part):
        raise UsageError(f"{name!r} cannot be the name of a job; give it as Jenkins shows it, folder/job")
    return quote(part, safe="")
