"""Validation of driver options from a test or a command line, before anything is started."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from perftrend.errors import SettingsError, nearest


def check(
    options: Mapping[str, str],
    *,
    numbers: Mapping[str, range],
    words: Mapping[str, Sequence[str]],
    texts: Sequence[str] = (),
) -> None:
    """Validate the names and the values of device options.

    :param numbers: options with an integer value, and the range of that value.
    :param words: options with a fixed set of values.
    :param texts: options with any text as their value, which the device itself checks.
    :raises SettingsError: naming the option, and the nearest valid name or value.
    """
    for name, value in options.items():
        if name in words:
            if value not in words[name]:
                raise SettingsError(f"device option {name}={value!r}{nearest(value, words[name])}")
        elif name in numbers:
            span = numbers[name]
            if not _NUMBER.fullmatch(value) or int(value) not in span:
                raise SettingsError(
                    f"device option {name}={value!r}: write a number from {span.start} to {span.stop - 1}"
                )
        elif name not in texts:
            known = nearest(name, [*numbers, *words, *texts])
            raise SettingsError(f"the device has no option {name!r}{known}")


_NUMBER = re.compile(r"[0-9]{1,9}")
"""Longer numbers are out of every range, and slow to parse."""
