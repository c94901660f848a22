"""A repository: its commits by hash, their order, and checkouts of them."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from perftrend.clients.git import mirrors
from perftrend.clients.git.addresses import Address
from perftrend.clients.git.program import Git
from perftrend.errors import UsageError
from perftrend.files import private_folder

FETCH_S = 3600.0
"""Timeout of a fetch in seconds: a first fetch of a large project over a slow line takes long."""
_ABBREVIATED = re.compile(r"[0-9a-f]{7,40}")
_WHOLE = re.compile(r"[0-9a-f]{40}")
_REF = re.compile(r"refs/[A-Za-z0-9_][A-Za-z0-9._+@/-]*[A-Za-z0-9_]")
_FORMAT = "%H%x00%P%x00%an%x00%ct%x00%s"
_CHANGE_ID = re.compile(r"I[0-9a-f]{40}")
_REVERTS = "This reverts commit "
_REVERTED = re.compile(rf"{_REVERTS}([0-9a-f]{{40}})")
_CANDIDATES = 4
_CHECKOUT_S = 1800.0
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit with the data that is shown of it."""

    hash: str
    """40 hex digits."""
    parents: tuple[str, ...]
    """Their full hashes; a merge has two or more."""
    subject: str
    author: str
    """The name, without the mail address."""
    committed: datetime
    """UTC."""


class Repository:
    """A repository on this machine.

    Make one by :meth:`mirror`, :meth:`at` or :meth:`local`.
    """

    def __init__(self, folder: Path, address: Address | None = None, git: Git | None = None) -> None:
        self.folder = folder
        self._address = address
        self._git = git or Git(folder)

    @classmethod
    def mirror(cls, url: str, folder: Path, *, timeout_s: float = FETCH_S) -> Repository:
        """Create a bare mirror of a repository in a folder, or fetch new commits into it.

        Two processes may do so at once; one waits for the other. A new mirror is renamed to its name when it
        is complete, so an incomplete one is never used.

        :param url: URL or path of the repository. A password in it is not stored.
        :param folder: the mirror itself.
        :raises UsageError: if ``url`` is neither.
        :raises ServiceError: if fetching fails.
        """
        address = Address.of(url)
        folder = folder.resolve()
        mirrors.refresh(address, folder, timeout_s=timeout_s)
        return cls(folder, address)

    @classmethod
    def at(cls, folder: Path) -> Repository:
        """Return the repository in a folder, unchanged.

        :raises UsageError: if the folder is not a git repository.
        """
        found = cls(folder.resolve())
        if not folder.is_dir() or found._git.try_("rev-parse", "--git-dir").code:
            raise UsageError(f"{folder} is not a git repository")
        return found

    @classmethod
    def local(cls, folder: Path, *, timeout_s: float) -> Repository:
        """Return the repository in a folder, for a process that must not wait; its existence is not checked.

        :param timeout_s: the time that each command may take.
        """
        return cls(folder, git=Git(folder, timeout_s=timeout_s))

    def fetch(self, *refs: str, url: str | None = None, timeout_s: float = FETCH_S) -> tuple[str, ...]:
        """Fetch refs, such as ``refs/changes/34/1234/5``, and store them under the same names.

        :param url: repository to fetch from; None: the source of this mirror, else ``origin``.
        :returns: the full hashes of their commits, in the order of ``refs``.
        :raises UsageError: if a name is not the full name of a ref.
        :raises ServiceError: if a ref does not exist, or the server does not provide it.
        """
        for ref in refs:
            if not _REF.fullmatch(ref) or ".." in ref or "//" in ref or "/." in ref:
                raise UsageError(f"{ref!r} is not a ref; write its full name, such as refs/heads/main")
        source = Address.of(url) if url else self._address or "origin"
        with mirrors.alone(self.folder):
            mirrors.fetch(self._git, source, [f"+{ref}:{ref}" for ref in refs], timeout_s=timeout_s)
        return tuple(
            self._git.run("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}").strip()
            for ref in refs
        )

    def resolve(self, text: str) -> str:
        """Return the full hash of a commit from 7 to 40 hex digits of it.

        :raises UsageError: if the text is not 7 to 40 hex digits, or they match no commit or several.
        """
        digits = text.strip().lower()
        if not _ABBREVIATED.fullmatch(digits):
            raise UsageError(f"{text[:60]!r} is not a commit hash; write 7 to 40 hex digits")
        # Not by the name of a branch that resembles a hash: that could be another commit.
        found = self._git.run("rev-parse", f"--disambiguate={digits}").split()
        kinds = self._git.run("cat-file", "--batch-check=%(objectname) %(objecttype)", text="\n".join(found))
        pairs = [line.split() for line in kinds.splitlines()]
        commits = [name for name, kind in pairs if kind == "commit"]
        existing = [kind for _, kind in pairs if kind != "missing"]
        if len(commits) == 1:
            return commits[0]
        if commits:
            raise UsageError(f"{digits} is ambiguous: {self._candidates(commits)}; write more digits of it")
        if existing:
            raise UsageError(f"{digits} is the hash of a {existing[0]}, not of a commit")
        raise UsageError(f"{digits} does not exist in the repository; is it pushed, and the clone complete?")

    def resolve_name(self, text: str) -> str:
        """Return the full hash of a commit that the user of this machine named.

        This is a hash, or, if the source of the commits is a folder on this machine, any name that git knows
        there: a tag, a branch, ``HEAD~20``. A hash takes precedence over a branch that resembles it.

        :raises UsageError: if the text does not name a commit.
        :raises ServiceError: if the commit cannot be fetched.
        """
        try:
            return self.resolve(text)
        except UsageError as not_a_hash:
            source = self._source_folder()
            if source is None:
                raise UsageError(f"{not_a_hash}; names need a repository on this machine") from None
            found = _find_by_name(source, text.strip())
            if found is None and _ABBREVIATED.fullmatch(text.strip().lower()):
                raise
        if found is None:
            raise UsageError(
                f"{text[:_LONGEST_NAME]!r} is not a commit of {source}; "
                "write a hash, a tag, a branch, or a name such as HEAD~20"
            )
        self._require_fetched(found)
        return found

    def _source_folder(self) -> Path | None:
        """Return the folder on this machine that the commits come from; None if they come from a server."""
        folder = self.folder if self._address is None else Path(self._address.url)
        return folder if folder.is_dir() else None

    def _require_fetched(self, commit: str) -> None:
        """Fetch a commit that no branch or tag of the source reaches."""
        if self._address and self._git.try_("cat-file", "-e", f"{commit}^{{commit}}").code:
            with mirrors.alone(self.folder):
                refs = [f"+{commit}:refs/perftrend/{commit}"]
                mirrors.fetch(self._git, self._address, refs, timeout_s=FETCH_S)

    def _candidates(self, commits: list[str]) -> str:
        some = [self.commit(name) for name in commits[:_CANDIDATES]]
        text = ", ".join(f"{each.hash[:12]} ({each.subject[:50]})" for each in some)
        more = len(commits) - len(some)
        return f"{text} and {more} more" if more else text

    def is_ancestor(self, old: str, new: str) -> bool:
        """Return whether a commit is in the history of another one, or is the same commit.

        :raises UsageError: if a commit does not exist, or the repository lacks the history to decide.
        """
        done = self._git.try_("merge-base", "--is-ancestor", _whole(old), _whole(new))
        if done.code not in (0, 1):
            self._require(old, new)
        if done.code:
            self._require_history()
        return done.code == 0

    def common_ancestor(self, one: str, other: str) -> str | None:
        """Return the newest commit that is in the history of both commits; None if there is none."""
        return self._git.try_("merge-base", _whole(one), _whole(other)).output.strip() or None

    def commit(self, hash: str) -> Commit:  # noqa: A002 - the term of git
        """Return one commit.

        :raises UsageError: if it does not exist.
        """
        arguments = ["rev-list", "--no-walk", "--no-commit-header", f"--format={_FORMAT}", "--encoding=UTF-8"]
        done = self._git.try_(*arguments, _whole(hash), "--")
        if done.code:
            self._require(hash)
        return next(_commits(done.output))

    def history(self, old: str, new: str, first_parent: bool = False) -> tuple[Commit, ...]:
        """Return the commits that are reachable from ``new`` but not from ``old``, each after its parents.

        :param first_parent: only the first-parent history of ``new``: a merge represents its branch.
        :raises UsageError: if a commit does not exist, or the repository lacks a part of the history.
        """
        self._require(old, new)
        self._require_history()
        walk = ["--first-parent"] if first_parent else []
        return self._list(old, new, "--topo-order", "--reverse", *walk)

    def newest(self, old: str, new: str, *, limit: int) -> tuple[Commit, ...]:
        """Return the commits that are reachable from ``new`` but not from ``old``, the newest first.

        Unlike :meth:`history`, it is one command, and does not check whether the repository has everything.

        :param limit: maximum number of commits.
        :raises UsageError: if a text is not a full hash.
        :raises ServiceError: if a commit does not exist, or the command takes too long.
        """
        return self._list(old, new, f"--max-count={limit}")

    def _list(self, old: str, new: str, *options: str) -> tuple[Commit, ...]:
        """Return the commits that are reachable from ``new`` but not from ``old``, as options order them."""
        output = self._git.run(
            "rev-list",
            *options,
            "--no-commit-header",
            f"--format={_FORMAT}",
            "--encoding=UTF-8",
            _whole(new),
            f"^{_whole(old)}",
            "--",
        )
        return tuple(_commits(output))

    def change_id(self, commit: str) -> str:
        """Return the Change-Id that Gerrit's hook wrote into the message of a commit; empty without one.

        :raises UsageError: if the commit does not exist.
        """
        self._require(commit)
        form = "--format=%(trailers:key=Change-Id,valueonly,separator=%x20)"
        found = self._git.run("log", "--max-count=1", form, _whole(commit), "--").split()
        return found[-1] if found and _CHANGE_ID.fullmatch(found[-1]) else ""

    def reverted(self) -> frozenset[str]:
        """Return the full hashes of commits that a commit of a branch says it reverts, as git words it.

        :raises ServiceError: if the command takes too long.
        """
        messages = self._git.run("log", "--branches", "--format=%b", "--fixed-strings", f"--grep={_REVERTS}")
        return frozenset(_REVERTED.findall(messages))

    def diff(self, commit: str, *, most_lines: int = 100) -> tuple[str, ...]:
        """Return the first lines of a commit's diff; for a merge, the diff to its first parent.

        :raises UsageError: if the commit does not exist.
        """
        self._require(commit)
        plain = ["--no-color", "--no-ext-diff", "--no-textconv", "--encoding=UTF-8"]
        output = self._git.run(
            "show", "--format=", "--diff-merges=first-parent", *plain, _whole(commit), "--"
        )
        return tuple(output.rstrip("\n").split("\n")[:most_lines]) if output else ()

    @contextmanager
    def worktree(self, commit: str, folder: Path | None = None) -> Generator[Path]:
        """Check out a commit in a temporary folder, which is removed afterwards.

        Folders left over by killed processes are removed first.

        :param folder: where such folders are created; None: inside the repository's git folder.
        :raises UsageError: if the commit does not exist.
        """
        self._require(commit)
        place = folder or self._own_folder()
        with check_out(self.folder, commit, place.resolve()) as path:
            yield path

    def _own_folder(self) -> Path:
        git_folder = self._git.run("rev-parse", "--git-common-dir").strip()
        return self.folder / git_folder / "perftrend-worktrees"

    def _require(self, *hashes: str) -> None:
        for each in hashes:
            if self._git.try_("cat-file", "-e", f"{_whole(each)}^{{commit}}").code:
                raise UsageError(f"commit {each} does not exist in the repository {self.folder}")

    def _require_history(self) -> None:
        if self._git.run("rev-parse", "--is-shallow-repository").strip() == "true":
            raise UsageError(
                f"{self.folder} has only the newest part of its history; "
                "fetch the rest with git fetch --unshallow"
            )


def _find_by_name(folder: Path, name: str) -> str | None:
    """Return the commit of a name in a repository; None if it names nothing, or something else."""
    if name.startswith("-") or not name.isprintable():
        return None
    git = Git(folder)
    for suffix in ("", "^{commit}"):
        # In two steps, because ":/words" would search for the suffix, too.
        done = git.try_("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}{suffix}")
        name = done.output.strip()
        if done.code or not _WHOLE.fullmatch(name):
            return None
    return name


def _whole(text: str) -> str:
    if not _WHOLE.fullmatch(text):
        raise UsageError(f"{text[:60]!r} is not a full commit hash of 40 hex digits")
    return text


def _commits(output: str) -> Iterator[Commit]:
    # Not by splitlines(): a subject may contain other line separators of Unicode.
    for line in output.split("\n"):
        if not line:
            continue
        name, parents, author, seconds, subject = line.split("\0", 4)
        moment = datetime.fromtimestamp(int(seconds), UTC)
        yield Commit(name, tuple(parents.split()), subject, author, moment)


@contextmanager
def check_out(repository: Path, commit: str, place: Path) -> Generator[Path]:
    """Check out a commit in a new folder within ``place``; it is removed afterwards."""
    git = Git(repository)

    def forget(path: Path) -> None:
        # Not removed by git, which refuses to remove files of a build, or what a killed process left over.
        with mirrors.alone(repository):
            git.try_("worktree", "unlock", str(path))  # locked if its creation was killed
            git.try_("worktree", "prune", "--expire=now")

    with private_folder(place, f"{commit[:12]}-", removed=forget) as path:
        # Git reads all worktrees when it adds one, and fails on one that is incomplete or partly removed.
        # Checking out the files may take minutes, so it is done after the lock is released.
        with mirrors.alone(repository):
            git.run("worktree", "add", "--quiet", "--detach", "--force", "--no-checkout", str(path), commit)
        Git(path).run("reset", "--quiet", "--hard", timeout_s=_CHECKOUT_S)
        yield path
