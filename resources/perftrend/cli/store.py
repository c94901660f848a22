"""Check, back up, restore, upgrade, move, export or prune the store, or correct its results and names."""

from __future__ import annotations

import argparse
import getpass
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import chain
from pathlib import Path
from types import ModuleType

from perftrend import COMMAND, command_to_install
from perftrend.archive import retention
from perftrend.cli import options
from perftrend.errors import EXIT_PASS, EXIT_SERVICE, UsageError
from perftrend.listener.supervisor import FOLDER
from perftrend.model import Run
from perftrend.settings import Settings
from perftrend.store import Store, maintenance
from perftrend.store.connection import redact_password
from perftrend.store.invalidations import subject_of
from perftrend.store.requests import RequestState
from perftrend.store.retention import RetentionKind
from perftrend.store.verdicts import PatchTest
from perftrend.text import format_count

ACTIONS = ("check", "backup", "restore", "migrate", "export", "import", "invalidate", "rename", "prune")

_ACTIONS = """\
actions:
  check       look for damage
  backup      write a copy into FILE while jobs continue
  restore     fill an empty store from FILE
  migrate     upgrade the store to the schema of this version; with --to, copy it into another database
  export      write all runs and results into FOLDER as Parquet files
  import      add the runs and results of such a FOLDER that the store does not have
  invalidate  mark a run, or some of its results, as invalid; with --undo, as valid again
  rename      continue the traces of a renamed test under its new name; without NAME, list the renames
  prune       delete what is older than the settings retention.* allow, and duplicates of details"""
_SUBJECTS = {
    "backup": "the FILE of the backup",
    "restore": "the FILE of the backup",
    "export": "the FOLDER of the Parquet files",
    "import": "the FOLDER of the Parquet files",
    "invalidate": "the run, as JOB/BUILD",
}
"""The argument that an action requires."""
_OPTIONS = {
    "to": ("migrate", "rename"),
    "dry_run": ("migrate", "prune"),
    "undo": ("invalidate", "rename"),
    "parameter": ("rename",),
    **dict.fromkeys(("reason", "test", "trace"), ("invalidate",)),
}
"""The actions that accept an option, for options that not all accept."""
_FILES = {"archives": "folders", "bisections": "sessions"}
"""The unit of the retention settings that concern files; the others concern rows of the store."""


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "store",
        __doc__,
        notes=_ACTIONS,
        examples=[
            "./run store backup perftrend.backup",
            "./run --with parquet store export results",
            "./run store invalidate nightly/42 --reason 'a cable was loose'",
            "./run store rename 64b-ip4base-mrr --to 64b-1c-ip4base-mrr",
        ],
    )
    add = described.add_argument
    add("action", choices=ACTIONS, metavar="ACTION", help=f"one of {', '.join(ACTIONS)}")
    add(
        "subject",
        metavar="FILE|FOLDER|JOB/BUILD|NAME",
        nargs="?",
        help="the file of a backup, the folder of Parquet files, the run to invalidate, or the old name",
    )
    add("--dry-run", action="store_true", help="migrate, prune: only show what would be done")
    add = described.add_argument_group("migrate and rename").add_argument
    add("--to", metavar="URL|NAME", help="migrate: the empty database to copy into; rename: the new name")
    add("--parameter", metavar="NAME", help="rename: the parameter whose value changed (default: test)")
    add("--undo", action="store_true", help="rename, invalidate: remove the rename or the mark")
    add = described.add_argument_group("invalidate").add_argument
    add("--reason", metavar="TEXT", help="why the values cannot be trusted; required")
    add("--test", metavar="NAME", help="only the results of this test")
    add("--trace", metavar="HASH", help="only the result of the trace with this hash")
    options.add_files(described, report=False, archive=False)
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_intermixed_args(argv)
        _require_fitting(given)
        settings = Settings.load(given.settings, overrides={"store": given.store})
        outcome.exit_code = _run(given, settings)
    return outcome.exit_code


def _require_fitting(given: argparse.Namespace) -> None:
    """Raise UsageError if an argument does not belong to the action."""
    needed = _SUBJECTS.get(given.action)
    if needed and given.subject is None:
        raise UsageError(f"{given.action}: name {needed}")
    if given.subject is not None and not needed and given.action != "rename":
        raise UsageError(f"{given.action}: takes no FILE; remove {given.subject}")
    for name, actions in _OPTIONS.items():
        if getattr(given, name) and given.action not in actions:
            verb = "takes" if len(actions) == 1 else "take"
            raise UsageError(f"--{name.replace('_', '-')}: only {' and '.join(actions)} {verb} it")
    if given.action == "rename":
        _require_rename(given)
    if given.action == "invalidate" and given.undo == (given.reason is not None):
        raise UsageError("--undo: takes no --reason" if given.undo else "invalidate: give a --reason")


def _require_rename(given: argparse.Namespace) -> None:
    """Raise UsageError unless a rename has no arguments, or an old name with a new one or --undo."""
    if given.subject is None:
        for option in ("to", "undo", "parameter"):
            if getattr(given, option):
                raise UsageError(f"--{option}: name the old NAME as well, as in rename NAME --to NEW")
    elif given.undo == (given.to is not None):
        raise UsageError("--undo: takes no --to" if given.undo else "rename: give the new name, --to NAME")


def _run(given: argparse.Namespace, settings: Settings) -> int:
    place, shown = settings.store, redact_password(settings.store)
    match given.action:
        case "check":
            return _check(place)
        case "backup":
            maintenance.backup(place, Path(given.subject))
            print(f"{shown} is saved in {given.subject}")
        case "restore":
            maintenance.restore(Path(given.subject), place)
            print(f"{shown} was restored from {given.subject}")
        case "export":
            _export(place, Path(given.subject))
        case "import":
            _import(Path(given.subject), place)
        case "invalidate":
            _invalidate(given, place)
        case "rename":
            _rename(given, place)
        case "prune":
            _prune(settings, dry_run=given.dry_run)
        case _ if given.to:
            _move(place, given.to, dry_run=given.dry_run)
        case _:
            _migrate(place, dry_run=given.dry_run)
    return EXIT_PASS


def _export(place: str, folder: Path) -> None:
    written = _load_parquet().export_folder(place, folder)
    runs = format_count(written.runs, "run")
    print(f"{runs} of {redact_password(place)} with {written.results} results are in {folder}")


def _import(folder: Path, place: str) -> None:
    read = _load_parquet().import_folder(folder, place)
    runs = format_count(read.added, "run")
    known = f"; {format_count(read.known, 'run')} were there already" if read.known else ""
    print(f"{runs} of {folder} were added to {redact_password(place)}{known}")


def _load_parquet() -> ModuleType:
    try:
        from perftrend.store import parquet  # noqa: PLC0415 - needs an extra
    except ImportError as error:
        how = command_to_install("parquet", "pyarrow")
        raise UsageError(f"Parquet needs the package {error.name}; install it with: {how}") from None
    return parquet


def _invalidate(given: argparse.Namespace, place: str) -> None:
    job, _, number = given.subject.rpartition("/")
    if not job or not number.isdecimal():
        raise UsageError(f"invalidate: a run is JOB/BUILD, such as nightly/7, not {given.subject!r}")
    with Store.open(place, create=False, migrate=False) as store:
        run = store.run(job, int(number))
        patch_test = None if run else store.patch_tests.of_build(job, int(number))
        if run:
            subject = _mark_run(given, store, run)
        elif patch_test:
            subject = _mark_patch_test(given, store, patch_test)
        else:
            shown = redact_password(place)
            raise UsageError(f"store {shown}: it has no run and no per-patch test {given.subject}")
    outcome = "no longer marked as invalid" if given.undo else "marked as invalid"
    print(f"{subject}: {outcome}")


def _mark_run(given: argparse.Namespace, store: Store, run: Run) -> str:
    test, trace = given.test or "", given.trace or ""
    if given.undo:
        store.invalidations.remove(run, author=getpass.getuser(), test=test, trace=trace)
    else:
        store.invalidations.add(run, given.reason, author=getpass.getuser(), test=test, trace=trace)
    return subject_of(run, test, trace)


def _mark_patch_test(given: argparse.Namespace, store: Store, patch_test: PatchTest) -> str:
    if given.trace:
        raise UsageError(f"{given.subject} is a per-patch test; use --test NAME instead of --trace")
    test = given.test or ""
    if given.undo:
        store.patch_tests.restore(patch_test, author=getpass.getuser(), name=test)
    else:
        store.patch_tests.invalidate(patch_test, given.reason, author=getpass.getuser(), name=test)
    return patch_test.subject(test)


def _rename(given: argparse.Namespace, place: str) -> None:
    old, parameter = given.subject, "test" if given.parameter is None else given.parameter
    with Store.open(place, create=False, migrate=False) as store:
        if old is None:
            for each in store.renames.all():
                print(f"{each} ({each.author}, {each.moment:%Y-%m-%d %H:%M} UTC)")
            return
        if given.undo:
            count = store.renames.remove(parameter, old, author=getpass.getuser())
            outcome = "is no longer renamed"
        else:
            count = store.renames.add(parameter, old, given.to, author=getpass.getuser())
            outcome = f"is {given.to} now"
        print(f"{parameter} {old} {outcome}: {format_count(count, 'trace')}", flush=True)
        store.tiles.remake()


def _check(place: str) -> int:
    checked = maintenance.check(place)
    held = (
        f"{checked.runs} runs, {checked.traces} traces, {checked.results} results "
        f"and {checked.patch_tests} per-patch tests"
    )
    for fault in checked.faults:
        print(f"fault: {fault}")
    if checked.runs_without_tiles:
        slow = format_count(checked.runs_without_tiles, "run")
        print(f"{slow} without tiles are drawn slowly; {COMMAND} rebuild-tiles creates them")
    faults = format_count(len(checked.faults), "fault") if checked.faults else "no fault"
    print(f"{redact_password(place)}: {held}; {faults}")
    return EXIT_SERVICE if checked.faults else EXIT_PASS


def _migrate(place: str, *, dry_run: bool) -> None:
    steps, shown = maintenance.list_pending(place), redact_password(place)
    if not steps:
        print(f"{shown} has the newest schema")
        return
    for step in steps:
        print(step)
    if dry_run:
        print(f"{shown} would be migrated to the newest schema; nothing was done")
        return
    maintenance.migrate(place)
    print(f"{shown} has the newest schema now")


def _move(place: str, other: str, *, dry_run: bool) -> None:
    source, target = redact_password(place), redact_password(other)
    if dry_run:
        rows = maintenance.prepare_move(place, other)
        print(f"{rows} rows would be copied from {source} to {target}; nothing was done")
        return
    rows = sum(maintenance.move(place, other).values())
    print(f"{rows} rows were copied from {source} to {target}; set the setting store to use it")


def _prune(settings: Settings, *, dry_run: bool) -> None:
    now = datetime.now(UTC)
    done = "would be deleted" if dry_run else "deleted"
    with Store.open(settings.store, create=False, migrate=False) as store:
        for name, days in settings.retention.model_dump().items():
            kind = name.removesuffix("_days")
            if days is None:
                print(f"{kind}: no limit; set retention.{name}")
                continue
            before = now - timedelta(days=days)
            if kind in _FILES:
                what = _prune_files(settings, store, kind, before, dry_run=dry_run)
            else:
                prune = store.retention.count if dry_run else store.retention.delete
                what = f"{prune(RetentionKind(kind), before)} rows"
            print(f"{kind}: {what} older than {days} d {done}")
        duplicates = store.retention.count_duplicates if dry_run else store.retention.delete_duplicates
        print(f"duplicate details: {duplicates()} rows {done}")


def _prune_files(settings: Settings, store: Store, kind: str, before: datetime, *, dry_run: bool) -> str:
    if kind == "bisections":
        expired = retention.find_expired_sessions(settings.bisect.sessions, before)
    else:
        running = (RequestState.WAITING, RequestState.RUNNING, RequestState.CANCELLING)
        in_use = {each.key for each in store.requests.in_states(*running)}
        expired = chain(
            retention.find_expired_builds(settings.archive, before),
            retention.find_expired_folders(settings.archive / FOLDER, before, except_for=in_use),
        )
    count = size = 0
    for each in expired:
        if not dry_run:
            retention.remove(each)
        count += 1
        size += each.size
    return f"{count} {_FILES[kind]} ({size} bytes)"


if __name__ == "__main__":
    sys.exit(main())
