"""Whether the store can be opened: driver, version and rights. It is neither created nor upgraded."""

from __future__ import annotations

import importlib.util
import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from perftrend import COMMAND, command_to_install
from perftrend.doctor import LONGEST_S
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import NewerStoreError, NoStoreError, StoreError, explain
from perftrend.settings import Settings
from perftrend.store.connection import redact_password
from perftrend.store.schema import HEAD
from perftrend.store.schema_version import file_of, inspect

_POSTGRESQL = ("postgresql://", "postgresql+psycopg://")


def check(settings: Settings) -> Iterator[CheckResult]:
    """Check the store of the settings."""
    place = settings.store
    if place.startswith(_POSTGRESQL) and not importlib.util.find_spec("psycopg"):
        install = command_to_install("postgresql", "psycopg[binary]")
        yield Area.STORE.fault("driver", "the driver of PostgreSQL is not installed", install)
        return
    try:
        file = file_of(place)
        if file:
            file.stat()
            yield _check_file(file)
        state = inspect(place, timeout_s=LONGEST_S)
    except FileNotFoundError as error:
        found = f"{error.filename} does not exist yet; {COMMAND} trending and {COMMAND} ingest create it"
        yield Area.STORE.ok("version", found)
        return
    except OSError as error:
        yield Area.STORE.fault("rights", explain(error), f"ls -l {shlex.quote(str(error.filename))}")
        return
    except StoreError as error:
        yield Area.STORE.fault("version", str(error), _find_fix(error, place))
        return
    yield _judge_version(state.version, place)
    if state.missing_rights:
        found = f"the user of {redact_password(place)} may not {', '.join(state.missing_rights)}"
        yield Area.STORE.fault("rights", found, "make the user the owner of the database")


def _check_file(path: Path) -> CheckResult:
    if os.access(path, os.R_OK | os.W_OK, effective_ids=True):
        return Area.STORE.ok("rights", f"this user can read and write {path}")
    fix = f"sudo chown {os.geteuid()} {shlex.quote(str(path))}*"
    return Area.STORE.fault("rights", f"this user cannot read and write {path}", fix)


def _judge_version(version: str, place: str) -> CheckResult:
    shown = redact_password(place)
    if not version:
        return Area.STORE.ok("version", f"{shown} is empty; the first job creates its tables")
    if version == HEAD:
        return Area.STORE.ok("version", f"{shown} has version {HEAD}, the newest")
    found = f"{shown} has version {version}, older than {HEAD}: the dashboard refuses it, and jobs upgrade it"
    return Area.STORE.warning("version", found, f"{COMMAND} store migrate{_option(place)}")


def _find_fix(error: StoreError, place: str) -> str:
    if isinstance(error, NewerStoreError):
        return "git pull (in the checkout of perftrend)"
    if isinstance(error, NoStoreError):
        return "set store to another one"
    if place.startswith(_POSTGRESQL):
        without_password = redact_password(place).replace(":***@", "@")
        return f"psql {shlex.quote(without_password.replace('+psycopg', '', 1))}"
    if "://" in place:
        return "set store to the path of an SQLite file, or to a PostgreSQL URL"
    return f"{COMMAND} store check{_option(place)}"


def _option(place: str) -> str:
    """Return the option that names a store; none for a URL, which may have a password."""
    return "" if "://" in place else f" --store {shlex.quote(place)}"
