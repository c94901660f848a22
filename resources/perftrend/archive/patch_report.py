"""Reads the report of a per-patch test: ``perftest.json``, as ``docs/formats/perftest.rst`` describes it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from perftrend.errors import ArchiveError
from perftrend.model import Better, Trials
from perftrend.store.verdicts import PatchTest, PatchTrace

FORMAT = "perftrend-perftest-1"
PLACE = Path("report") / "perftest.json"
"""Relative to the folder of a build."""
MOST_BYTES = 32 * 1024**2
_MOST_TESTS = 2000
_GREATEST = 2**31 - 1


def _storable(text: str) -> str:
    """Return the text, or raise ValueError if PostgreSQL cannot store it."""
    if "\x00" in text:
        raise ValueError("contains a null character")
    return text


_Text = Annotated[str, Field(max_length=10_000), AfterValidator(_storable)]
_Name = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(_storable)]
_Unit = Annotated[str, Field(max_length=32), AfterValidator(_storable)]
_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{7,64}$")]
_Number = Annotated[int, Field(ge=1, le=_GREATEST)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)


class _Round(_Part):
    samples: list[float | None]


class _PatchReportTest(_Part):
    rounds: list[_Round]

    @property
    def trials(self) -> Trials:
        """The samples of each round."""
        return tuple(tuple(each for each in one.samples if each is not None) for one in self.rounds)


class _Test(_Part):
    test: _Text
    unit: _Unit
    better: Better
    finding: _Text
    parent: _PatchReportTest
    current: _PatchReportTest


class _Report(_Part):
    format: str
    sentence: _Text
    testbed: _Name | None
    simulated: bool
    parent: _Hash
    patch: _Hash
    change: _Number | None
    patch_set: _Number | None
    page: _Text | None
    started: AwareDatetime
    finished: AwareDatetime
    rounds: Annotated[int, Field(ge=0, le=_GREATEST)]
    ended: bool = True
    """Older versions of perftrend write the report only at the end."""
    tests: Annotated[list[_Test], Field(max_length=_MOST_TESTS)]


def parse(
    content: bytes, *, job: str, build: int, name: str, archive: str = ""
) -> tuple[PatchTest, tuple[PatchTrace, ...]]:
    """Return the per-patch test of a report, and its traces.

    :param name: name of the report for messages.
    :param archive: where it was read from.
    :raises ArchiveError: if it is not valid, or has another format.
    """
    try:
        report = _Report.model_validate_json(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "its beginning"
        raise ArchiveError(
            f"{name}: the report is broken at {place}: {first['msg']}; run the per-patch test again"
        ) from None
    if report.format != FORMAT:
        raise ArchiveError(f"{name}: the report is of another format than {FORMAT}; upgrade perftrend")
    test = PatchTest(
        job=job,
        build=build,
        testbed=report.testbed or "",
        parent=report.parent,
        patch=report.patch,
        started=report.started,
        updated=report.finished,
        rounds=report.rounds,
        ended=report.ended,
        change=report.change,
        patch_set=report.patch_set,
        simulated=report.simulated,
        sentence=report.sentence,
        page=report.page if report.page and report.page.startswith(("http://", "https://")) else "",
        archive=archive,
    )
    traces = (
        PatchTrace(each.test, each.unit, each.better, each.finding, each.parent.trials, each.current.trials)
        for each in report.tests
    )
    return test, tuple(traces)
