"""The contents of a profile: how a version of a product is built, installed, identified and measured."""

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
"""Placeholders of commands that run in the worktree."""
USING = ("python", "artifacts", "commit", "jobs")
"""Placeholders of commands that use the artifacts, when the worktree is removed."""
MEASURING = (*USING, "variant")
"""Placeholders of the command that measures."""
ALWAYS = ("python", "commit", "jobs")
"""Placeholders that are valid for both."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _check_build_word(text: str) -> str:
    templates.check(text, BUILDING)
    return text


def _check_use_word(text: str) -> str:
    templates.check(text, USING)
    return text


def _check_measure_word(text: str) -> str:
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
        raise ValueError(f"{text!r} is not a variable name")
    return text


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


BuildCommand = Annotated[tuple[Annotated[str, AfterValidator(_check_build_word)], ...], Field(min_length=1)]
UseWord = Annotated[str, AfterValidator(_check_use_word)]
UseCommand = Annotated[tuple[UseWord, ...], Field(min_length=1)]
MeasureCommand = Annotated[
    tuple[Annotated[str, AfterValidator(_check_measure_word)], ...], Field(min_length=1)
]
Glob = Annotated[Text, AfterValidator(_inside)]
Variable = Annotated[Text, AfterValidator(_variable)]
Pattern = Annotated[Text, AfterValidator(_pattern)]


class ProfileTable(BaseModel):
    """A part of a profile, which is immutable and rejects unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ProfileParameter(ProfileTable):
    """A parameter of a profile."""

    description: Text
    """The meaning of a value, with an example."""
    default: str | None = None
    """The value if none is given; none: a value is required."""


class Timeouts(ProfileTable):
    """The time limits of all commands of a step together."""

    build: Seconds = 7200.0
    install: Seconds = 600.0
    identify: Seconds = 60.0
    measure: Seconds = 3600.0


class MeasureTable(ProfileTable):
    """A command that prints numbers."""

    command: MeasureCommand
    """Run in a copy of the artifacts; it has to end with 0."""
    prints: Literal["numbers", "named", "json"] = "numbers"
    """The format of its standard output: a number on each line; a name and a number, and perhaps a unit,
    on each; or JSON: a number, a list of numbers, or an object of names with either."""
    test: Text = "command"
    """The name of the test for numbers without a name."""
    unit: str = ""
    """The unit of numbers without one; empty: they have none."""
    better: Better = Better.HIGHER
    """Which direction is good: ``higher`` or ``lower``."""
    ignore: tuple[Pattern, ...] = ()
    """Lines that completely match one of these regular expressions are not numbers."""
    remote: bool = False
    """Whether the command only sends requests to another machine, where everything runs that it measures."""
    cores: Literal["one", "all"] = "one"
    """Whether it is pinned to the core that is the fastest at the moment, or may use all."""
    repetitions: int = Field(1, ge=1, le=1000)
    """How often the command is started in one measurement."""
    variants: int = Field(1, ge=1, le=100)
    """The number of layouts that successive measurements of a build cycle through."""


class Profile(ProfileTable):
    """The steps to build and measure a product."""

    name: Text
    """The name of its file."""
    description: Text
    """A description of the product, in a sentence."""
    parameters: dict[str, ProfileParameter] = {}
    """The parameters, by name: ``{name}`` in any word of the file, ``{name...}`` for several words."""
    repository: Text | None = None
    """The source of the commits, a URL or a path; none: the settings define it."""
    build: tuple[BuildCommand, ...] = ()
    """Commands that are run one after the other in a fresh checkout, each a list of words."""
    environment: dict[Variable, Annotated[str, AfterValidator(_always)]] = {}
    """Variables of all commands, in addition to ``PATH``, ``HOME`` and the like."""
    inherit: Words = ()
    """Further variables that they get from this process, such as ``CCACHE_DIR``."""
    artifacts: Annotated[tuple[Glob, ...], Field(min_length=1)]
    """Patterns of files, or of folders with all their contents, that exist after the build and are cached."""
    install: tuple[UseCommand, ...] = ()
    """Commands that are run before this build is measured, in the folder of its artifacts."""
    identify: UseCommand | None = None
    """A command whose output names the commit that is installed, by 7 digits or more of its hash."""
    device_options: dict[str, UseWord] = {}
    """Options for the driver of the testbed's device."""
    measure: MeasureTable | None = None
    """The command that measures it; none: the suites do, on the testbed."""
    timeouts_s: Timeouts = Timeouts()
    """The time limit of each step."""

    @property
    def hash(self) -> str:
        """A hash of the build configuration: 16 hex digits that change with all inputs of an artifact."""
        inputs = self.model_dump(mode="json", include={"build", "environment", "inherit", "artifacts"})
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
