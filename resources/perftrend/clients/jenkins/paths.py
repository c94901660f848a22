"""Paths of jobs, views and artifacts on a Jenkins, relative to its address.

A name is quoted as a whole, so that a question mark or a slash in it is part of the name. Names come from
users and from servers; names such as ``..`` that would lead to another path are refused.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

from perftrend.errors import UsageError


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
