"""What a per-patch test was asked, kept beside its rounds, so that it goes on with the same after a kill."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from perftrend.errors import ArchiveError, UsageError

FILE = "asked.json"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class Asked:
    """What is compared, where and by which tests: rounds of another question do not count."""

    testbed: str
    parent: str
    """The whole hash of the commit that the patch lies on."""
    patch: str
    """The whole hash of the patch set's commit."""
    tests: tuple[str, ...]
    """By name, in order."""
    how: dict[str, str]
    """What else changes the values: the profile, durations, options of the device."""
    change: int | None = None
    """Number of the change in Gerrit, if it is one."""
    patch_set: int | None = None
    request: str = field(default="", compare=False)
    """What tells the comment that asked from all others; empty where none did."""

    def keep(self, folder: Path) -> None:
        """Write down what is asked, or check that it is what was asked before.

        :param folder: of the build in the archive.
        :raises UsageError: if it holds rounds of something else.
        """
        earlier = read(folder)
        if earlier is None:
            folder.mkdir(parents=True, exist_ok=True)
            beside = folder / f".{FILE}.unfinished"
            beside.write_bytes(_ASKED.dump_json(self, indent=1))
            beside.replace(folder / FILE)
        elif earlier != self:
            differing = next(name for name in self.__slots__ if getattr(earlier, name) != getattr(self, name))
            raise UsageError(
                f"{folder} holds rounds of something else ({differing} differs); remove it or count on"
            )


_ASKED = TypeAdapter(Asked)


def begun(folder: Path, asked: Asked) -> int | None:
    """Return the newest build that the same request has begun with the same question; None if there is none.

    A request that was asked once is started again only because its job was killed.

    :param folder: of the job in the archive.
    """
    if not asked.request:
        return None
    builds = (int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal())
    return next((each for each in sorted(builds, reverse=True) if _is_of(asked, folder / str(each))), None)


def _is_of(asked: Asked, folder: Path) -> bool:
    try:
        earlier = read(folder)
    except ArchiveError:
        return False
    return earlier is not None and (earlier, earlier.request) == (asked, asked.request)


def read(folder: Path) -> Asked | None:
    """Return what a build was asked; None where it has not begun.

    :raises ArchiveError: if the file tells nothing of the kind.
    """
    file = folder / FILE
    try:
        return _ASKED.validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise ArchiveError(f"{file}: does not tell what was asked; remove {folder}") from None
