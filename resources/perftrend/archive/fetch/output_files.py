"""Selection of the files of a build to read: the most complete valid one.

===========================================  =================================================
files                                        content
===========================================  =================================================
``output.xml``, ``.gz``, ``.zip``;           everything
``output.json``, ``.gz``;
``output.zip``, ``robot-plugin.zip``
``tests/…/*.info.json``, ``.gz``             the result of one test each
``output_info.xml`` or ``.json``, ``.gz``    the same tests as ``output.xml``, with fewer log
                                             messages
``perftest.json``                            a per-patch test
===========================================  =================================================

A weaker file is used if no stronger one is valid. The outputs of a per-patch test or a bisection, recognized
by ``asked.json``, are those of its rounds: they are not a run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from perftrend.archive.fetch.builds import ArchivedFile
from perftrend.errors import ArchiveError

MOST_RESULTS = 50_000
"""Maximum number of result files of one build."""


class ContentKind(Enum):
    """The content of a file."""

    OUTPUT = "the output"
    RESULT = "the result files of its tests"
    WEAK = "the weaker output"
    PATCH = "the report of a per-patch test"
    REQUEST = "the request of a per-patch test or a bisection"


_FORMS = {
    ContentKind.OUTPUT: re.compile(
        r"(?:.*/)?(?:output\.(?:xml|json)(?:\.gz|\.zip)?|(?:output|robot-plugin)\.zip)"
    ),
    ContentKind.RESULT: re.compile(r"(?:.*/)?tests/.*\.info\.json(?:\.gz)?"),
    ContentKind.WEAK: re.compile(r"(?:.*/)?output_info\.(?:xml|json)(?:\.gz|\.zip)?"),
    ContentKind.PATCH: re.compile(r"(?:.*/)?perftest\.json"),
    ContentKind.REQUEST: re.compile(r"(?:.*/)?asked\.json"),
}
_ORDER = (".xml.gz", ".xml", ".json.gz", ".json", ".zip")
_FIRST = (ContentKind.PATCH, ContentKind.REQUEST, ContentKind.OUTPUT)
OUTPUTS = (ContentKind.OUTPUT, ContentKind.WEAK)
WEAKER = (ContentKind.RESULT, ContentKind.WEAK)
_SHA256 = ".sha256"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Files that together contain the results of a build."""

    kind: ContentKind
    files: tuple[ArchivedFile, ...]


def kind_of(name: str) -> ContentKind | None:
    """Return the kind of a file by its name; None if it is not needed."""
    return next((kind for kind, form in _FORMS.items() if form.fullmatch(name)), None)


def rank_files(files: Iterable[ArchivedFile]) -> list[ArchivedFile]:
    """Return the files that are needed, best first, each with its checksum's file if there is one."""
    found = list(files)
    checksums = {file.name: file.location for file in found if file.name.endswith(_SHA256)}
    return [
        replace(file, checksum_location=checksums.get(file.name + _SHA256, ""))
        for file in sorted(found, key=lambda file: rank(file.name))
        if kind_of(file.name)
    ]


def require_one_run(ordered: Sequence[ArchivedFile]) -> None:
    """Reject the outputs of several runs, since the first one may belong to another run.

    Outputs in deeper folders are parts from which the output was merged. Those of rounds are not read.

    :raises ArchiveError: if outputs are in several folders of the same depth as the first one.
    """
    if any(kind_of(file.name) in {ContentKind.PATCH, ContentKind.REQUEST} for file in ordered):
        return
    outputs = [file.name for file in ordered if kind_of(file.name) is ContentKind.OUTPUT]
    for name in outputs[1:]:
        if name.count("/") == outputs[0].count("/") and _folder(name) != _folder(outputs[0]):
            raise ArchiveError(
                f"contains several outputs, {outputs[0]} and {name}; which one to read is not known"
            )


def attempts(files: Iterable[ArchivedFile]) -> Iterator[OutputFiles]:
    """Yield the files to try one after the other, and consume only as many files as necessary.

    A build with the report of a per-patch test is such a test, even if the report is not valid.
    """
    are_rounds = False
    results: list[ArchivedFile] = []
    weak: list[ArchivedFile] = []
    for file in files:
        kind = kind_of(file.name)
        if kind is ContentKind.PATCH:
            yield OutputFiles(kind, (file,))
            return
        if kind is ContentKind.REQUEST:
            are_rounds = True
        elif are_rounds:
            continue
        elif kind is ContentKind.OUTPUT:
            yield OutputFiles(kind, (file,))
        elif kind is ContentKind.WEAK:
            weak.append(file)
        elif kind is ContentKind.RESULT and len(results) <= MOST_RESULTS:
            results.append(file)
    if 0 < len(results) <= MOST_RESULTS:
        yield OutputFiles(ContentKind.RESULT, tuple(results))
    for file in weak:
        yield OutputFiles(ContentKind.WEAK, (file,))


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def rank(name: str) -> tuple[int, int, int, str]:
    """Return a sort key for names: outputs before other files, shallow before deep, compressed before plain.

    Files that mark the outputs as those of rounds come first.
    """
    form = next((number for number, ending in enumerate(_ORDER) if name.endswith(ending)), len(_ORDER))
    kind = kind_of(name)
    first = _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
    return first, name.count("/"), form, name
