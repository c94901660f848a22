"""Profiles: how a version of a product is fetched, built, installed, identified and measured.

A profile is a file, ``NAME.yaml``. It may declare words as parameters, whose values are in the
settings. A loaded profile contains no parameters, only the placeholders that
:class:`perftrend.builds.Builds` replaces: ``{python}``, ``{source}``, ``{artifacts}``, ``{commit}``,
``{jobs}``, ``{variant}``, ``{isolated}``, ``{device}`` and ``{ssh_options...}``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from perftrend.builds import commands
from perftrend.errors import SettingsError, nearest
from perftrend.model import Better
from perftrend.settings.values import Number, Seconds, Text, Words

BUILDING = ("python", "source", "commit", "jobs")
"""Placeholders of commands that run in the worktree."""
USING = ("python", "artifacts", "commit", "jobs")
"""Placeholders of commands that use the artifacts, when the worktree is removed."""
INSTALLING = (*USING, "device")
"""Placeholders of commands that install or identify a build."""
SSH_OPTIONS = "{ssh_options...}"
"""A word of these commands: the options of ``ssh`` and ``scp`` for ``{device}``."""
MEASURING = (*USING, "variant")
"""Placeholders of the command that measures."""
ON_DEVICE = (*USING, "isolated")
"""Placeholders of options for the driver of the testbed's device."""
ALWAYS = ("python", "commit", "jobs")
"""Placeholders that are valid for both."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOTHING: Mapping[str, str] = MappingProxyType({})
_RESERVED = {*ALWAYS, *BUILDING, *MEASURING, *ON_DEVICE, *INSTALLING, "ssh_options"}


def _check_build_word(text: str) -> str:
    commands.check_placeholders(text, BUILDING)
    return text


def _check_install_word(text: str) -> str:
    if text != SSH_OPTIONS:
        commands.check_placeholders(text, INSTALLING)
    return text


def _check_measure_word(text: str) -> str:
    commands.check_placeholders(text, MEASURING)
    return text


def _check_device_word(text: str) -> str:
    commands.check_placeholders(text, ON_DEVICE)
    return text


def _always(text: str) -> str:
    commands.check_placeholders(text, ALWAYS)
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


def _none_if_empty(text: object) -> object:
    return text or None


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"{text!r} is not a regular expression: {error}") from None
    return text


BuildCommand = Annotated[tuple[Annotated[str, AfterValidator(_check_build_word)], ...], Field(min_length=1)]
InstallCommand = Annotated[
    tuple[Annotated[str, AfterValidator(_check_install_word)], ...], Field(min_length=1)
]
DeviceWord = Annotated[str, AfterValidator(_check_device_word)]
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
    better: Annotated[Better | None, BeforeValidator(_none_if_empty)] = None
    """Which direction is good, ``higher`` or ``lower``; none: lower for a unit of time, otherwise higher."""
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
    instructions: Literal["explain", "measure", "no"] = "explain"
    """Whether Valgrind counts the instructions of the command: to explain a difference, if it is installed;
    as what is measured, instead of the numbers that the command prints; or never."""

    @property
    def counts_instructions(self) -> bool:
        """Whether instructions are counted if Valgrind is installed."""
        return self.instructions != "no" and not self.remote


class SandboxTable(ProfileTable):
    """What the commands of a change under review may use."""

    network: bool = False
    """Whether they may use the network."""
    readable: tuple[Text, ...] = ()
    """Files and folders that they may read, in addition to those of the system."""
    memory_gib: Annotated[Number, Field(gt=0)] | None = None
    """The memory of a command and its children; none: three quarters of that of the machine."""
    processes: Annotated[int, Field(ge=1)] = 4096
    """The number of their processes and threads."""
    disk_gib: Annotated[Number, Field(gt=0)] = 20.0
    """The size of the files that they write; at most three quarters of the free space in any case."""


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
    install: tuple[InstallCommand, ...] = ()
    """Commands that are run before this build is measured, in the folder of its artifacts."""
    identify: InstallCommand | None = None
    """A command whose output names the commit that is installed, by 7 digits or more of its hash."""
    device_options: dict[str, DeviceWord] = {}
    """Options for the driver of the testbed's device."""
    measure: MeasureTable | None = None
    """The command that measures it; none: the suites do, on the testbed."""
    sandbox: SandboxTable = SandboxTable()
    """What the commands of a change under review may use."""
    timeouts_s: Timeouts = Timeouts()
    """The time limit of each step."""

    @property
    def installs_by_ssh(self) -> bool:
        """Whether it installs builds on the machine of the testbed's device."""
        words = {word for command in (*self.install, self.identify or ()) for word in command}
        return SSH_OPTIONS in words or any("device" in commands.placeholders(word) for word in words)

    @model_validator(mode="after")
    def _check_device(self) -> Profile:
        if self.measure and self.installs_by_ssh:
            raise ValueError("{device} needs the suites; a command under measure uses no testbed")
        return self

    @property
    def hash(self) -> str:
        """A hash of the build configuration: 16 hex digits that change with all inputs of an artifact."""
        inputs = self.model_dump(mode="json", include={"build", "environment", "inherit", "artifacts"})
        return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


class _Open(BaseModel):
    """The part of a profile that is needed to read the rest."""

    parameters: dict[str, ProfileParameter]


def load(name: str, folder: Path | None = None, parameters: Mapping[str, str] = _NOTHING) -> Profile:
    """Read a profile, from a team's own folder or else from the package.

    :param parameters: values for the parameters of the profile.
    :raises SettingsError: for an unknown name, an invalid file or an invalid parameter; suggests the nearest.
    """
    files = dict(_files(folder))
    if name not in files:
        raise SettingsError(f"profile {name!r} is unknown{nearest(name, files)}")
    place = f"profile file {files[name]}"
    try:
        # Every word stays as written: 0755 is not an octal number, and yes is not a truth value.
        content = yaml.load(files[name].read_text(encoding="utf-8"), yaml.BaseLoader)  # noqa: S506 - no objects
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{place} is not a YAML mapping: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise SettingsError(f"{place} is not a YAML mapping")
    try:
        declared = _Open.model_validate({"parameters": content.pop("parameters", {})}).parameters
        resolved = _substitute(content, _values(name, declared, parameters))
        return Profile.model_validate({"name": name, **resolved, "parameters": declared})
    except ValidationError as error:
        raise SettingsError(f"{place}: {_explain(error)}") from None
    except RecursionError:
        raise SettingsError(f"{place}: it contains itself") from None


def names(folder: Path | None = None) -> list[str]:
    """Return the names of all profiles that can be loaded."""
    return sorted(dict(_files(folder)))


def _files(folder: Path | None) -> Iterator[tuple[str, Traversable]]:
    shipped = resources.files("perftrend") / "projects"
    for place in (shipped, folder):
        if place is None:
            continue
        if not place.is_dir():
            raise SettingsError(f"{place} is not a folder of profiles; see the setting project.profiles")
        for file in place.iterdir():
            if file.name.endswith(".yaml"):
                yield file.name.removesuffix(".yaml"), file


def _values(
    profile: str, declared: Mapping[str, ProfileParameter], given: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the value of each parameter."""
    for name in declared:
        if not commands.is_placeholder_name(name) or name in _RESERVED:
            raise SettingsError(
                f"profile {profile}: {name!r} cannot be the name of a parameter; use lower-case letters, "
                f"digits and _, but none of {', '.join(sorted(_RESERVED))}"
            )
    for name in given:
        if name not in declared:
            raise SettingsError(f"profile {profile} has no parameter {name!r}{nearest(name, declared)}")
    values = {}
    for name, parameter in declared.items():
        value = given.get(name, parameter.default)
        if value is None:
            raise SettingsError(
                f"profile {profile} needs the parameter {name}: {parameter.description.rstrip('.')}; "
                f"see the setting project.parameters"
            )
        values[name] = value
    return values


def _substitute(value: Any, parameters: Mapping[str, str]) -> Any:  # noqa: ANN401 - any YAML value
    """Replace the parameters in all texts of a part of a profile."""
    if isinstance(value, str):
        return commands.substitute(value, parameters)
    if isinstance(value, dict):
        return {key: _substitute(each, parameters) for key, each in value.items()}
    if isinstance(value, list):
        return [each for item in value for each in _items(item, parameters)]
    return value


def _items(item: Any, parameters: Mapping[str, str]) -> list[Any]:  # noqa: ANN401 - any YAML value
    """Return the replacement of an item of a list: none or several if words are spliced in."""
    words = commands.splice(item, parameters) if isinstance(item, str) else None
    if words is not None:
        return words
    found = _substitute(item, parameters)
    # A command that consists only of an empty parameter has nothing to do.
    return [] if item and found == [] else [found]


def _explain(error: ValidationError) -> str:
    """Return the first error, its place, and the key that was probably meant."""
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] != "extra_forbidden":
        return f"{place}: {first['msg'].removeprefix('Value error, ')}"
    *path, key = first["loc"]
    return f"{place} is not a profile key{nearest(str(key), _keys(path))}"


def _keys(path: list[int | str]) -> list[str]:
    """Return the keys that a table within a profile may have."""
    table: type[BaseModel] = Profile
    for part in path:
        field = table.model_fields.get(str(part))
        if field:
            table = next(iter(_tables(field.annotation)), table)
    return list(table.model_fields)


def _tables(annotation: object) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _tables(part)
