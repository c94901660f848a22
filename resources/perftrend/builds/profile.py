"""Profiles: how a version of a product is fetched, built, installed, identified and measured.

A profile is a file, ``NAME.yaml``. It may declare words as parameters, whose values are in the
settings. A loaded profile contains no parameters, only the placeholders that
:class:`perftrend.builds.Builds` replaces: ``{python}``, ``{source}``, ``{artifacts}``, ``{commit}``,
``{jobs}`` and ``{variant}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from perftrend.builds import templates
from perftrend.builds.tables import ALWAYS, BUILDING, MEASURING, MeasureTable, Profile, ProfileParameter
from perftrend.errors import SettingsError, nearest

__all__ = ["MeasureTable", "Profile", "ProfileParameter", "load", "names"]

_NOTHING: Mapping[str, str] = MappingProxyType({})
_RESERVED = {*ALWAYS, *BUILDING, *MEASURING}


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
        if not templates.is_name(name) or name in _RESERVED:
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
        return templates.substitute(value, parameters)
    if isinstance(value, dict):
        return {key: _substitute(each, parameters) for key, each in value.items()}
    if isinstance(value, list):
        return [each for item in value for each in _items(item, parameters)]
    return value


def _items(item: Any, parameters: Mapping[str, str]) -> list[Any]:  # noqa: ANN401 - any YAML value
    """Return the replacement of an item of a list: none or several if words are spliced in."""
    words = templates.splice(item, parameters) if isinstance(item, str) else None
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
