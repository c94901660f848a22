"""The request of a per-patch test, stored alongside its rounds, so that a killed job resumes it."""

from __future__ import annotations

from dataclasses import field
from pathlib import Path

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from perftrend.errors import ArchiveError, UsageError
from perftrend.files import write_whole

FILE = "asked.json"


@dataclass(frozen=True, slots=True, config=ConfigDict(extra="forbid"))
class PatchComparison:
    """What is compared, where and by which tests: rounds of other requests do not count."""

    testbed: str
    parent: str
    """The whole hash of the patch's parent commit."""
    patch: str
    """The whole hash of the patch set's commit."""
    tests: tuple[str, ...]
    """By name, in order."""
    how: dict[str, str]
    """Everything else that changes the values: the profile, durations, options of the device."""
    change: int | None = None
    """Number of the change in Gerrit, if it is one."""
    patch_set: int | None = None
    request: str = field(default="", compare=False)
    """An identifier of the comment with the request; empty without a comment."""

    def save(self, folder: Path) -> None:
        """Store the request, or check that it equals the stored one.

        :param folder: the folder of the build in the archive.
        :raises UsageError: if it contains rounds of another request.
        """
        earlier = read(folder)
        if earlier is None:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / FILE, _ADAPTER.dump_json(self, indent=1))
        elif earlier != self:
            differing = next(name for name in self.__slots__ if getattr(earlier, name) != getattr(self, name))
            raise UsageError(
                f"{folder} contains rounds of another comparison ({differing} differs); "
                "remove it or use another number"
            )


_ADAPTER = TypeAdapter(PatchComparison)


def find_earlier_build(folder: Path, comparison: PatchComparison) -> int | None:
    """Return the newest build that the same request has begun with the same comparison; None if none.

    A request is started again only if its job was killed.

    :param folder: the folder of the job in the archive.
    """
    if not comparison.request:
        return None
    builds = (int(entry.name) for entry in folder.glob("[0-9]*") if entry.name.isdecimal())
    return next(
        (each for each in sorted(builds, reverse=True) if _is_of(comparison, folder / str(each))), None
    )


def _is_of(comparison: PatchComparison, folder: Path) -> bool:
    try:
        earlier = read(folder)
    except ArchiveError:
        return False
    return earlier is not None and (earlier, earlier.request) == (comparison, comparison.request)


def read(folder: Path) -> PatchComparison | None:
    """Return the request of a build; None if it has not begun.

    :raises ArchiveError: if the file cannot be read or is not valid.
    """
    file = folder / FILE
    try:
        return _ADAPTER.validate_json(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        raise ArchiveError(f"{file} is not a valid request; remove {folder}") from None
