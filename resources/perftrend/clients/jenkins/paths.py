"""Where things lie on a Jenkins, as paths below its address.

A name is quoted as a whole, so that a question mark or a slash in it is a part of the name. Names
come from people and from servers; one that would lead elsewhere is refused.
"""

from __future__ import annotations

from urllib.parse import quote, unquote, urlsplit

from perftrend.errors import UsageError


def job_path(name: str) -> str:
    """Return the path of a job or a folder, ``job/team/job/nightly``, without a slash at its ends.

    :param name: the full name, folders before it: ``team/nightly``; empty for the top.
    :raises UsageError: if no job can have that name.
    """
    return "/".join(f"job/{_part(part, name)}" for part in name.split("/")) if name else ""


def view_path(name: str) -> str:
    """Return the path of a view, which may lie in other views: ``view/team/view/nightly``."""
    return "/".join(f"view/{_part(part, name)}" for part in name.split("/")) if name else ""


def artifact_path(path: str) -> str:
    """Return the path of an artifact below its build. What leads elsewhere is told when it is opened."""
    return "artifact/" + "/".join(quote(part, safe="*") for part in path.split("/"))


def is_below(url: str, base: str) -> bool:
    """Tell whether a URL lies below another one, however it is written."""
    if not url.startswith(f"{base}/"):
        return False
    parts = unquote(urlsplit(url).path).replace("\\", "/").split("/")
    return not {".", ".."} & set(parts)


def is_name(text: object) -> bool:
    """Tell whether a job, a folder or a view can be named so."""
    return isinstance(text, str) and text.isprintable() and text not in ("", ".", "..") and "/" not in text


def _part(part: str, name: str) -> str:
    if not is_name(part):
        raise UsageError(f"{name!r} cannot be the name of a job; give it as Jenkins shows it, folder/job")
    return quote(part, safe="")
