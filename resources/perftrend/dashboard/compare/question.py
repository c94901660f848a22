"""What is to be compared, as the address of the page says it."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, field_validator

from perftrend.analysis.ratios import AGGREGATES
from perftrend.errors import nearest

BY_NAME = "name"
"""Rows are sorted by the test."""
_COLUMN = re.compile(r"c([0-9]{1,5})")


class By(StrEnum):
    """What the two sides are."""

    VERTICAL = "vertical"
    """Two values of a parameter."""
    COMMITS = "commits"
    """Two commits, of the same traces."""
    PATCH = "patch"
    """A patch set that was measured, and what there was without it."""


class Rule(StrEnum):
    """Which value is taken where there is none of the very commit."""

    NEAREST = "nearest"
    BEFORE = "before"
    AFTER = "after"


class Against(StrEnum):
    """What a patch set is compared with."""

    PARENT = "parent"
    """Its parent, as it was measured beside it."""
    TRACES = "traces"
    """The traces of the nightly runs."""


class Ratio(StrEnum):
    """How the ratio of a cell is written."""

    SIGNED = "signed"
    PLAIN = "plain"

    @property
    def words(self) -> str:
        """What a person chooses."""
        return {Ratio.SIGNED: "with a sign", Ratio.PLAIN: "below and above 1"}[self]

    @property
    def meaning(self) -> str:
        """What the number says."""
        return {
            Ratio.SIGNED: "left/right if left is larger, else -right/left",
            Ratio.PLAIN: "left/right: above 1 if left is larger, below 1 if right is",
        }[self]


class Question(BaseModel):
    """All that was asked; texts are as somebody typed them, without blanks around them."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    q: Annotated[str, Field(max_length=10_000)] = ""
    """Which traces, as Explore has it."""
    by: By = By.VERTICAL
    vertical: Annotated[str, Field(max_length=1000)] = ""
    left: Annotated[str, Field(max_length=1000)] = ""
    """A value of the vertical, or a commit."""
    right: Annotated[str, Field(max_length=1000)] = ""
    """What left is compared with."""
    at: Annotated[str, Field(max_length=64)] = ""
    """The commit or the time that the values are of; empty: the latest."""
    rule: Rule = Rule.NEAREST
    patch: Annotated[str, Field(max_length=300)] = ""
    """The job and the build that measured a patch set, ``job/build``, or ``change/patch set``."""
    against: Against = Against.PARENT
    ratio: Ratio = Ratio.SIGNED
    sort: Annotated[str, Field(max_length=20)] = "weight"
    """An aggregate, ``name``, or ``c`` and the number of a column."""
    reverse: bool = False
    first: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The place of the first row that is shown."""
    row: Annotated[str, Field(max_length=1000)] = ""
    """The only row that is shown, with all that is known of it; empty: many."""

    @field_validator("sort")
    @classmethod
    def _known(cls, sort: str) -> str:
        if sort not in (*AGGREGATES, BY_NAME) and not _COLUMN.fullmatch(sort):
            raise ValueError(f"rows cannot be sorted by that{nearest(sort, (*AGGREGATES, BY_NAME, 'c0'))}")
        return sort

    @property
    def encoded(self) -> str:
        """What stands behind the question mark of the address; what is as it is anyway is left out."""
        return self.but()

    def but(self, **changed: object) -> str:
        """Return that address with other values in some fields."""
        told = {**self.model_dump(mode="json", exclude_defaults=True), **changed}
        # Not those of a page, which tell of one moment.
        known = Question.model_fields
        return urlencode({
            name: int(told[name]) if told[name] is True else told[name]
            for name in known
            if name in told and told[name] != known[name].default
        })  # fmt: skip

    @property
    def column(self) -> int | None:
        """The number of the column that rows are sorted by; None: it is another thing."""
        found = _COLUMN.fullmatch(self.sort)
        return int(found[1]) if found else None

    @property
    def is_whole(self) -> bool:
        """Whether it says all that is needed to compare."""
        if self.by is By.PATCH:
            return bool(self.patch)
        return bool(self.left and self.right and (self.by is By.COMMITS or self.vertical))


class PageQuestion(Question):
    """What the page itself is asked, beside that."""

    posted: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """The change where the table was just posted."""


class MessageQuestion(Question):
    """What the message is asked, beside that."""

    change: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """Where it is to be posted."""


TheQuestion = Annotated[Question, Query()]
"""The question of an address."""
