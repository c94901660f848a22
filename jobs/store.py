"""Check, back up, restore, upgrade or move the store."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from jobs import _options as options
from perftrend.errors import EXIT_PASS, EXIT_SERVICE, UsageError
from perftrend.settings import Settings
from perftrend.store import maintenance

ACTIONS = ("check", "backup", "restore", "migrate")


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(prog="./run store", description=__doc__)
    add = described.add_argument
    add("action", choices=ACTIONS, help="check: look for damage; backup: write a copy into FILE while jobs "
        "go on; restore: fill an empty store from FILE; migrate: bring the store to this version's form, "
        "or with --to copy it into another database")  # fmt: skip
    add("file", metavar="FILE", nargs="?", type=Path, help="the SQLite file of a backup")
    add("--settings", metavar="FILE", help="YAML file with the settings")
    add("--store", metavar="PATH", help="the store: an SQLite file, or a database URL")
    add("--to", metavar="URL", help="of migrate: the empty database that everything is copied into")
    add("--dry-run", action="store_true", help="of migrate: say what would be done, and do nothing")
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.reported() as outcome:
        given = parser().parse_args(argv)
        _require_fitting(given)
        settings = Settings.load(given.settings, overrides={"store": given.store})
        outcome.exit_code = _run(given, settings.store)
    return outcome.exit_code


def _require_fitting(given: argparse.Namespace) -> None:
    """Refuse what does not belong to the action."""
    takes_file = given.action in {"backup", "restore"}
    if takes_file and given.file is None:
        raise UsageError(f"{given.action}: name the FILE of the backup")
    if given.file is not None and not takes_file:
        raise UsageError(f"{given.action}: takes no FILE, and {given.file} is one")
    if given.action != "migrate" and (given.to or given.dry_run):
        raise UsageError(f"{'--to' if given.to else '--dry-run'}: only migrate takes it")


def _run(given: argparse.Namespace, place: str) -> int:
    match given.action:
        case "check":
            return _check(place)
        case "backup":
            maintenance.backup(place, given.file)
            print(f"{place} is saved in {given.file}")
        case "restore":
            maintenance.restore(given.file, place)
            print(f"{place} holds what {given.file} holds")
        case _ if given.to:
            _move(place, given.to, dry_run=given.dry_run)
        case _:
            _migrate(place, dry_run=given.dry_run)
    return EXIT_PASS


def _check(place: str) -> int:
    checked = maintenance.check(place)
    held = f"{checked.runs} runs, {checked.traces} traces and {checked.results} results"
    for fault in checked.faults:
        print(f"fault: {fault}")
    if checked.runs_without_tiles:
        print(f"{checked.runs_without_tiles} runs are drawn slowly; ./run tiles makes their tiles")
    print(f"{place}: {held}; {f'{len(checked.faults)} faults' if checked.faults else 'no fault'}")
    return EXIT_SERVICE if checked.faults else EXIT_PASS


def _migrate(place: str, *, dry_run: bool) -> None:
    steps = maintenance.pending(place)
    if not steps:
        print(f"{place} has the newest form")
        return
    for step in steps:
        print(step)
    if dry_run:
        print(f"{place} would be brought to the newest form; nothing was done")
        return
    maintenance.migrate(place)
    print(f"{place} has the newest form now")


def _move(place: str, other: str, *, dry_run: bool) -> None:
    shown = maintenance.shown(other)
    if dry_run:
        rows = maintenance.prepare_move(place, other)
        print(f"{rows} rows would be copied from {place} to {shown}; nothing was done")
        return
    rows = sum(maintenance.move(place, other).values())
    print(f"{rows} rows were copied from {place} to {shown}; set the setting store to use it")


if __name__ == "__main__":
    sys.exit(main())
