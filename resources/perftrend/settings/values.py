"""Types of settings: the values that they accept, and how these are converted.

A YAML file has its own types, the environment has only text. A type accepts both, and rejects values that
were probably meant otherwise.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr


def _words(value: object) -> object:
    return tuple(re.split(r"[\s,]+", value.strip())) if isinstance(value, str) else value


def _text(value: object) -> object:
    """Convert a number or a truth value of YAML back to the word that was written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


def _require_nonempty(value: str) -> str:
    if not value:
        raise ValueError("Input should not be empty")
    return value


def as_number(value: object) -> object:
    """Reject a truth value, which Python would convert to 0 or 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number")
    return value


def _path(value: object) -> object:
    return os.path.expanduser(value) if isinstance(value, str) else value  # noqa: PTH111 - text in, text out


def _moment(value: object) -> object:
    """Convert a day to its end in UTC, and a time without a zone to one in UTC."""
    if not isinstance(value, str | date):
        raise ValueError("Input should be a date")
    try:
        return moment_of(str(value).strip(), of_day=time.max)
    except ValueError as error:
        raise ValueError(f"Input should be a date: {error}") from None


def moment_of(text: str, *, of_day: time) -> datetime:
    """Parse a day, or a time, in UTC if it has no zone.

    :param of_day: the time of a day: its beginning or its end, in UTC.
    :raises ValueError: if it is neither; the message shows the expected form.
    """
    try:
        return datetime.combine(date.fromisoformat(text), of_day, UTC)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("write 2026-03-02, or 2026-03-02T18:00+01:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _secret(value: object) -> object:
    if value is None or isinstance(value, SecretStr):
        return value
    # YAML reads 0123 as 83, which a server would reject as a wrong password much later.
    if not isinstance(value, str) or not value.strip():
        raise ValueError("Input should be text; write it between quotes")
    return value.strip()


def _pattern_validator(pattern: str, form: str) -> AfterValidator:
    """Return a check whose message shows the expected form instead of the pattern."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(f"Input should be {form}")
        return value

    return AfterValidator(check)


def _http_url(value: object) -> object:
    if not isinstance(value, str) or not _is_plain_http(value):
        raise ValueError(
            "Input should be a URL such as https://jenkins.example.org, without user and password"
        )
    return value.rstrip("/")


def _is_plain_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    is_plain = not re.search(r"[\s\\@?#]|[^\x21-\x7e]", url)
    return parts.scheme in ("http", "https") and has_host and is_plain


def _expand_home(text: str) -> str:
    return str(_path(text)) if text.startswith("~") else text


MaybeEmpty = Annotated[str, BeforeValidator(_text)]
Text = Annotated[MaybeEmpty, AfterValidator(_require_nonempty)]
Place = Annotated[Text, AfterValidator(_expand_home)]
"""A path, or a URL."""
Words = Annotated[tuple[Text, ...], BeforeValidator(_words)]
Folder = Annotated[Path, BeforeValidator(_path)]
Number = Annotated[float, BeforeValidator(as_number)]
LossRatio = Annotated[Number, Field(ge=0, lt=1)]
LossRatios = Annotated[tuple[LossRatio, ...], BeforeValidator(_words)]
Moment = Annotated[datetime, BeforeValidator(_moment)]
"""A date, which means its end in UTC, or a time, in UTC if it has no zone."""
Seconds = Annotated[Number, Field(gt=0)]
Hours = Annotated[Number, Field(gt=0, le=100_000)]
Count = Annotated[int, BeforeValidator(as_number), Field(ge=1)]
Days = Annotated[Count, Field(le=36500)]
HttpUrl = Annotated[str, BeforeValidator(_http_url)]
"""An address without user and password, which have settings of their own."""
Server = Annotated[
    Text,
    _pattern_validator(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):[0-9]{1,5}", "host:port, such as localhost:25"),
]
Host = Annotated[
    Text, _pattern_validator(r"[A-Za-z0-9:][A-Za-z0-9._:-]*", "the name or the address of a host")
]
Address = Annotated[
    Text, _pattern_validator(r"[^\s@,;<>\"]+@[^\s@,;<>\"]+", "user@host, without a name around it")
]
"""A mail address, without a name around it."""
Addresses = Annotated[tuple[Address, ...], BeforeValidator(_words)]
Secret = Annotated[SecretStr | None, BeforeValidator(_secret), Field(exclude=True, repr=False)]
"""A token or a password; perftrend writes it to no message, log or file."""
