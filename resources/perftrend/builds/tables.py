"""What a profile may say: how a version of a product is built, installed, identified and measured."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from perftrend.builds import templates
from perftrend.model import Better
from perftrend.settings.values import Seconds, Text, Words

BUILDING = ("python", "source", "commit", "jobs")
"""Placeholders of what is done in the worktree."""
USING = ("python", "artifacts", "commit", "jobs")
"""Placeholders of what is done with the artifacts, when the worktree is gone."""
MEASURING = (*USING, "variant")
"""Placeholders of the command that measures."""
ALWAYS = ("python", "commit", "jobs")
"""Placeholders of what holds for both."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _built(text: str) -> str:
    templates.check(text, BUILDING)
    return text


def _used(text: str) -> str:
    templates.check(text, USING)
    return text


def _measured(text: str) -> str:
    templates.check(text, MEASURING)
    return text


def _always(text: str) -> str:
    templates.check(text, ALWAYS)
    return text


def _inside(text: str) -> str:
    path = PurePosixPath(text)
    has_part_of_star = any("**" in part and part != "**" for part in path.parts)
    if path.is_absolute() or ".." in path.parts or not path.parts or has_part_of_star or "\0" in text:
        raise ValueError(f"{text!r} should be a pattern of files within the worktree, such as build/*.deb")
    return text


def _variable(text: str) -> str:
    if not _VARIABLE.fullmatch(text):
        raise ValueError(f"{text!r} is no name of a variable")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is no regular expression: {error}") from None
    return text


BuildCommand = Annotated[tuple[Annotated[str, AfterValidator(_built)], ...], Field(min_length=1)]
UseWord = Annotated[str, AfterValidator(_used)]
UseCommand = Annotated[tuple[UseWord, ...], Field(min_length=1)]
MeasureCommand = Annotated[tuple[Annotated[str, AfterValidator(_measured)], ...], Field(min_length=1)]
Glob = Annotated[Text, AfterValidator(_inside)]
Variable = Annotated[Text, AfterValidator(_variable)]
Pattern = Annotated[Text, AfterValidator(_pattern)]


class Table(BaseModel):
    """A part of a profile that does not change and refuses what it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(Table):
    """What a profile leaves open."""

    description: Text
    """What a value means, with an example."""
    default: str | None = None
    """The value where none is given; none: one has to be given."""


class Timeouts(Table):
    """How long the commands of a step may take together."""

    build: Seconds = 7200.0
    install: Seconds = 600.0
    identify: Seconds = 60.0
    measure: Seconds = 3600.0


class Measure(Table):
    """A command that prints numbers."""

    command: MeasureCommand
    """Run in a copy of the artifacts; it has to end with 0."""
    prints: Literal["numbers", "named", "json"] = "numbers"
    """What stands on its standard output: a number on each line; a name and a number, and perhaps a unit,
    on each; or JSON: a number, a list of numbers, or an object of names with either."""
    test: Text = "command"
    """The name of the test that numbers without a name belong to."""
    unit: str = ""
    """The unit of numbers that stand without one; empty: they have none."""
    better: Better = Better.HIGHER
    """Which direction is good news: ``higher`` or ``lower``."""
    ignore: tuple[Pattern, ...] = ()
    """Lines that match one of these regular expressions as a whole are no numbers."""
    remote: bool = False
    """Whether the command only asks another machine, where all is run that it measures."""
    cores: Literal["one", "all"] = "one"
    """Whether it is pinned to the core that is the fastest at the moment, or may use all."""
    repetitions: int = Field(1, ge=1, le=1000)
    """How often the command is started in one measurement."""
    variants: int = Field(1, ge=1, le=100)
    """The number of layouts that successive measurements of a build go through."""


class Profile(Table):
    """How a product is built and measured."""

    name: Text
    """The name of its file."""
    description: Text
    """What product it is, in a sentence."""
    parameters: dict[str, Parameter] = {}
    """What is left open, by name: ``{name}`` in any word of the file, ``{name...}`` for several words."""
    repository: Text | None = None
    """Where the commits come from, a URL or a path; none: the settings say it."""
    build: tuple[BuildCommand, ...] = ()
    """Commands that are run one after the other in a fresh checkout, each a list of words."""
    environment: dict[Variable, Annotated[str, AfterValidator(_always)]] = {}
    """Variables of all commands, beside ``PATH``, ``HOME`` and the like."""
    inherit: Words = ()
    """Further variables that they get from this process, such as ``CCACHE_DIR``."""
    artifacts: Annotated[tuple[Glob, ...], Field(min_length=1)]
    """Patterns of files, or of folders with all that is in them, that exist after the build and are kept."""
    install: tuple[UseCommand, ...] = ()
    """Commands that are run before this build is measured, in the folder of its artifacts."""
    identify: UseCommand | None = None
    """A command whose output names the commit that is installed, by 7 digits or more of its hash."""
    device_options: dict[str, UseWord] = {}
    """Options for the driver of the testbed's device."""
    measure: Measure | None = None
    """How it is measured; none: by the suites, on the testbed."""
    timeouts_s: Timeouts = Timeouts()
    """How long each step may take."""

    @property
    def hash(self) -> str:
        """A name for the way of building: 16 hex digits that change with all that an artifact depends on."""
        told = self.model_dump(mode="json", include={"build", "environment", "inherit", "artifacts"})
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]
