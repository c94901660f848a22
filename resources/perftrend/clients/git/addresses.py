"""URLs and paths of repositories, and the passwords that URLs may contain.

All users of the machine see a command line, and git starts programs of its own with the URL on theirs.
Therefore a password is passed in the environment, as a header that is sent to that server only.
"""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from perftrend.errors import UsageError

_PASSWORD = re.compile(r"(?<=://)(?P<user>[^/@\s:]*):[^/\s]*@")
_SCHEMES = ("file", "git", "http", "https", "ssh")
_SHORT = re.compile(r"(?:[\w.-]+@)?[A-Za-z0-9][\w.-]*:(?!//)[^\s].*")
"""The syntax of scp: ``user@host:path``."""


def without_password(text: str) -> str:
    """Return a text without the passwords of the URLs in it."""
    return _PASSWORD.sub(r"\g<user>@", text)


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a repository."""

    url: str
    """Without a password; a path is absolute."""
    configuration: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Settings for git that contain the password."""

    @classmethod
    def of(cls, text: str) -> Address:
        """Parse a URL or a path.

        :raises UsageError: if git would interpret it as something else, such as an option or a program.
        """
        if not text or text.startswith("-") or not text.isprintable():
            raise UsageError(f"{text!r} is not a repository; write a URL or a path")
        if "://" not in text:
            if not _SHORT.fullmatch(text) or Path(text).exists():
                return cls(str(Path(text).expanduser().resolve()))
            if "::" in text:
                raise UsageError(f"{text!r} is not a repository; write a URL or a path")
            return cls(text)
        try:
            parts = urlsplit(text)
        except ValueError:
            raise UsageError("the address of the repository is not a valid URL") from None
        redacted = without_password(text)
        if parts.scheme not in _SCHEMES:
            raise UsageError(f"{redacted!r} is not a repository; known schemes are {', '.join(_SCHEMES)}")
        if parts.password is None:
            return cls(text)
        host = parts.netloc.rpartition("@")[2]
        if parts.scheme not in ("http", "https"):
            return cls(redacted)
        url = parts._replace(netloc=host).geturl()
        user = f"{unquote(parts.username or '')}:{unquote(parts.password)}"
        header = f"Authorization: Basic {base64.b64encode(user.encode()).decode()}"
        # git would send the header to the server of a redirect as well.
        server = f"http.{parts.scheme}://{host}/"
        return cls(url, ((f"{server}.extraHeader", header), (f"{server}.followRedirects", "false")))
