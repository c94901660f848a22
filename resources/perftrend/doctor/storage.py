"""Whether jobs can write their folders and the store, whether disks have space, and who can read secrets.

The store is neither created nor upgraded.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel, SecretStr

from perftrend import COMMAND, command_to_install
from perftrend.doctor import LONGEST_S
from perftrend.doctor.check_results import Area, CheckResult
from perftrend.errors import NewerStoreError, NoStoreError, StoreError, explain
from perftrend.settings import FILE_VARIABLE, PREFIX, Settings
from perftrend.store.connection import redact_password
from perftrend.store.schema import HEAD
from perftrend.store.schema_version import file_of, inspect

_GIB = 1024**3
_LEAST_BYTES = _GIB // 2
"""Below this space, the next run may not be stored."""
_LITTLE_BYTES = 5 * _GIB
_LEAST_SHARE_OF_INODES = 0.01
_PASSWORD_IN_URL = re.compile(r"://[^:/?#@]*:[^/?#]*@")
_PGPASS = "~/.pgpass"
_NETRC_AND_JJB = (
    "~/.netrc",
    # Where Jenkins Job Builder looks for the login of Jenkins.
    "jenkins_jobs.ini",
    "~/.config/jenkins_jobs/jenkins_jobs.ini",
    "/etc/jenkins_jobs/jenkins_jobs.ini",
)

_POSTGRESQL = ("postgresql://", "postgresql+psycopg://")


def check_files(
    settings: Settings, file: str | None, environment: Mapping[str, str] = os.environ
) -> Iterator[CheckResult]:
    """Check the folders and the files that the settings name.

    :param file: the settings file of the command line; by default that of the environment.
    """
    yield from _check_folders(_folders(settings))
    yield from _check_secrets(settings, file or environment.get(FILE_VARIABLE), environment)


def _folders(settings: Settings) -> dict[str, Path]:
    """Return the folders that jobs write, by the name of their setting."""
    folders = {
        "archive": settings.archive,
        "report": settings.report,
        "project.builds": settings.project.builds,
        "bisect.sessions": settings.bisect.sessions,
        "fetch.cache": settings.fetch.cache,
        "mail.record": settings.mail.record,
    }
    if "://" not in settings.store:
        folders["store"] = Path(settings.store).absolute().parent
    return folders


def _check_folders(folders: Mapping[str, Path]) -> Iterator[CheckResult]:
    """Yield what prevents jobs from writing, and the space on each disk, each once for all its folders."""
    unwritable: dict[Path, list[str]] = {}
    disks: dict[int, tuple[Path, list[str]]] = {}
    for name, folder in folders.items():
        existing = _nearest(folder)
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK, effective_ids=True):
            unwritable.setdefault(existing, []).append(name)
        disks.setdefault(existing.stat().st_dev, (existing, []))[1].append(name)
    for existing, names in unwritable.items():
        yield _explain_unwritable(existing, {name: folders[name].absolute() for name in names})
    for existing, names in disks.values():
        yield _check_disk(existing, names)


def _nearest(folder: Path) -> Path:
    """Return the folder, or the nearest one above it that exists: the job creates the rest."""
    path = folder.absolute()
    # A folder that this user cannot see is one that cannot be written.
    while not os.path.exists(path):  # noqa: PTH110 - False instead of an error if a folder above is closed
        path = path.parent
    return path


def _explain_unwritable(existing: Path, folders: Mapping[str, Path]) -> CheckResult:
    names = ", ".join(folders)
    elsewhere = f"set {names} to another place"
    if not existing.is_dir():
        return Area.FILES.fault("folders", f"{names}: {existing} is not a folder", elsewhere)
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        found = f"{names}: {existing} is on a file system that is mounted read-only"
        return Area.FILES.fault("folders", found, elsewhere)
    user = pwd.getpwuid(os.geteuid()).pw_name if _is_known_user() else str(os.geteuid())
    wanted = " ".join(_quoted(folder) for folder in folders.values() if folder != existing)
    found = f"{names}: {existing} cannot be written by the user {user}"
    fix = f"sudo install -d -o {shlex.quote(user)} {wanted}" if wanted else elsewhere
    return Area.FILES.fault("folders", found, fix)


def _is_known_user() -> bool:
    return any(each.pw_uid == os.geteuid() for each in pwd.getpwall())


def _check_disk(place: Path, names: Sequence[str]) -> CheckResult:
    what = "disk"
    free = shutil.disk_usage(place).free
    inodes = os.statvfs(place)
    found = f"{_format_bytes(free)} free at {place} for {', '.join(names)}"
    fix = f"{COMMAND} store prune --dry-run"
    if inodes.f_files and inodes.f_favail < _LEAST_SHARE_OF_INODES * inodes.f_files:
        return Area.FILES.fault(what, f"{found}, but only {inodes.f_favail} more files fit", fix)
    if free < _LEAST_BYTES:
        return Area.FILES.fault(what, f"{found}: the next run may not be stored", fix)
    if free < _LITTLE_BYTES:
        return Area.FILES.warning(what, found, fix)
    return Area.FILES.ok(what, found)


def _format_bytes(count: int) -> str:
    return f"{count / _GIB:.1f} GiB" if count >= _GIB else f"{count // 1024**2} MiB"


def _check_secrets(
    settings: Settings, file: str | None, environment: Mapping[str, str]
) -> Iterator[CheckResult]:
    closed = []
    for path, is_private in _files_with_secrets(settings, file, environment):
        try:
            if not path.is_file():
                continue
            is_exposed = is_readable_by_others(path)
            is_ignored = is_private and path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)
        except OSError:
            # Jobs cannot use what this user cannot see.
            continue
        if is_exposed:
            found = f"every user of this machine can read {path}, which contains a secret"
            yield Area.FILES.fault("secrets", found, f"chmod o-rwx {_quoted(path)}")
        elif is_ignored:
            found = f"other users have rights on {path}, so the program that reads it ignores it"
            yield Area.FILES.fault("secrets", found, f"chmod 600 {_quoted(path)}")
        else:
            closed.append(str(path))
    if closed:
        yield Area.FILES.ok("secrets", f"other users cannot read {', '.join(closed)}")


def _files_with_secrets(
    settings: Settings, file: str | None, environment: Mapping[str, str]
) -> Iterator[tuple[Path, bool]]:
    """Yield files, and whether their program ignores them unless only their owner has rights."""
    if file and has_secrets(Settings.load(file, environment={})):
        yield Path(file).expanduser(), False
    for name, value in environment.items():
        if name.startswith(PREFIX) and name.endswith("_FILE") and value.strip():
            yield Path(os.path.expanduser(value)), False  # noqa: PTH111 - works without a home, too
    if settings.gerrit.ssh_key:
        yield settings.gerrit.ssh_key, True
    for each in _NETRC_AND_JJB:
        yield Path(os.path.expanduser(each)), False  # noqa: PTH111 - as above
    yield Path(os.path.expanduser(_PGPASS)), True  # noqa: PTH111 - as above


def has_secrets(settings: Settings) -> bool:
    """Return whether settings contain a token, a password or a key, or a password in a URL."""
    sections = (value for _, value in settings if isinstance(value, BaseModel))
    if any(isinstance(value, SecretStr) for section in sections for _, value in section):
        return True
    return any(_PASSWORD_IN_URL.search(url) for url in (settings.store, settings.project.repository or ""))


def is_readable_by_others(path: Path) -> bool:
    """Return whether users who are neither the owner nor in the group can read a file.

    :raises OSError: if this user cannot see the file.
    """
    real = path.resolve(strict=True)
    if not real.stat().st_mode & stat.S_IROTH:
        return False
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def check_store(settings: Settings) -> Iterator[CheckResult]:
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
            yield _check_store_file(file)
        state = inspect(place, timeout_s=LONGEST_S)
    except FileNotFoundError as error:
        found = f"{error.filename} does not exist yet; {COMMAND} trending and {COMMAND} ingest create it"
        yield Area.STORE.ok("version", found)
        return
    except OSError as error:
        yield Area.STORE.fault("rights", explain(error), f"ls -l {shlex.quote(str(error.filename))}")
        return
    except StoreError as error:
        yield Area.STORE.fault("version", str(error), _find_store_fix(error, place))
        return
    yield _judge_version(state.version, place)
    if state.missing_rights:
        found = f"the user of {redact_password(place)} may not {', '.join(state.missing_rights)}"
        yield Area.STORE.fault("rights", found, "make the user the owner of the database")


def _check_store_file(path: Path) -> CheckResult:
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


def _find_store_fix(error: StoreError, place: str) -> str:
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
