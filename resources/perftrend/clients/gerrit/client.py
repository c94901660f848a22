"""The changes, comments, verdicts and events of one Gerrit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from perftrend.clients.gerrit import finding, listing, posting
from perftrend.clients.gerrit.api import Api
from perftrend.clients.gerrit.changes import Change, File, PatchSet
from perftrend.clients.gerrit.comments import Comment
from perftrend.clients.gerrit.people import Account, Group
from perftrend.clients.gerrit.reviews import Posted, Verdict
from perftrend.clients.gerrit.stream import EventStream, ssh_command
from perftrend.clients.gerrit.transport import Transport
from perftrend.clients.web.retrying import Wait, patiently
from perftrend.errors import SettingsError, nearest
from perftrend.settings import GerritSettings


def connect(settings: GerritSettings) -> Gerrit:
    """Return the Gerrit that the settings name. Nothing is asked yet.

    :raises SettingsError: if they name none, or a user without a token.
    """
    if not settings.url:
        raise SettingsError("gerrit.url is not set; say which Gerrit to ask")
    if bool(settings.user) != bool(settings.token):
        raise SettingsError("gerrit.user and gerrit.token belong together; set both or none")
    return Gerrit(
        settings.url,
        user=settings.user,
        token=settings.token.get_secret_value() if settings.token else None,
        ssh_host=settings.ssh_host,
        ssh_port=settings.ssh_port,
        ssh_key=settings.ssh_key,
        known_hosts=settings.known_hosts,
        label=settings.label,
        notify=settings.notify,
        timeout_s=settings.timeout_s,
        attempts=settings.attempts,
    )


class Gerrit:
    """One Gerrit, as one user sees it. Threads may share it.

    :param url: its address, such as ``https://review.example.org``, without user and password.
    :param user: who asks; None: everybody, who may only read.
    :param token: the user's HTTP password.
    :param ssh_host: where events are listened to; None: the host of the address.
    :param ssh_key: file with the private key; None: what ssh itself chooses.
    :param known_hosts: file with the trusted host keys; None: those that ssh itself trusts.
    :param label: what verdicts vote on; None: they do not vote.
    :param notify: who gets a mail: ``none``, ``owner``, ``owner-reviewers`` or ``all``.
    :param timeout_s: a server that says nothing for so long has failed to answer.
    :param attempts: how often something is asked before the server is given up.
    :param wait: how long to pause between attempts; by default what the server asks for, or ever longer.
    :raises UsageError: if the address is none, or a user has no token.

    Every method raises ServiceError for a server that refuses, fails or answers as Gerrit would not,
    :class:`UnavailableError` among them where it may be otherwise later.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        token: str | None = None,
        ssh_host: str | None = None,
        ssh_port: int = 29418,
        ssh_key: Path | None = None,
        known_hosts: Path | None = None,
        label: str | None = "Performance",
        notify: str = "owner",
        timeout_s: float = 30.0,
        attempts: int = 5,
        wait: Wait = patiently,
    ) -> None:
        transport = Transport(url, user=user, token=token, timeout_s=timeout_s, attempts=attempts, wait=wait)
        self._api = Api(transport)
        self._user = user
        self._host, self._port = ssh_host or transport.host, ssh_port
        self._key, self._known_hosts = ssh_key, known_hosts
        self._label, self._notify = label, notify
        self._timeout_s = timeout_s

    @property
    def url(self) -> str:
        """The address, without a slash at its end."""
        return self._api.transport.url

    @property
    def account(self) -> Account:
        """The account that asks; what it wrote itself is known by this."""
        return self._api.account

    def groups(self, account: Account) -> tuple[Group, ...]:
        """Return the groups that somebody is a member of, straight or through other groups.

        Those that the user does not see are not among them.
        """
        number = account.number if account.number is not None else self._api.number(account.username)
        return () if number is None else self._api.groups_of(number)

    def check_groups(self, names: Sequence[str]) -> None:
        """Refuse groups that the user does not see: nobody would ever be a member of them.

        :param names: names or identities.
        :raises SettingsError: for the first that is not there.
        """
        known = self._api.groups()
        for name in names:
            if all(name not in (group.name, group.identity) for group in known):
                choices = nearest(name, (group.name for group in known))
                raise SettingsError(f"gerrit.groups: the user {self._user!r} sees no group {name!r}{choices}")

    def change(self, number: int) -> Change:
        """Return a change with all its patch sets and the votes on the newest."""
        return self._api.change(number)

    def page(self, change: Change) -> str:
        """Return the address of a change's page."""
        return f"{self.url}/c/{quote(change.project)}/+/{change.number}"

    def files(self, change: int, patch_set: int) -> tuple[File, ...]:
        """Return the files that a patch set touches, by path; of a merge, against all its parents."""
        return self._api.files(change, patch_set)

    def comments(self, change: int) -> tuple[Comment, ...]:
        """Return the messages and the comments of a change, in the order of time."""
        return self._api.comments(change)

    def updated_since(
        self, moment: datetime, *, projects: Sequence[str] = (), maximum: int = 500
    ) -> Iterator[Change]:
        """Yield the changes that were updated at or after a moment, the latest first, each once.

        They are asked for as they are taken, with no more than their newest patch set.

        :param moment: with a time zone; the second that it lies in is looked at as a whole.
        :param projects: where to look; none: in all of them.
        :param maximum: how many changes there may be.
        :raises TooLargeError: after the last one, if there are more.
        """
        return listing.updated_since(self._api, moment, projects, maximum)

    def commented_since(
        self, moment: datetime, *, projects: Sequence[str] = (), maximum: int = 500
    ) -> Iterator[tuple[Change, tuple[Comment, ...]]]:
        """Yield the changes with comments at or after a moment, and these comments.

        Gerrit keeps whole seconds: all comments of the second that the moment lies in are told. Parameters
        and errors are those of :meth:`updated_since`.
        """
        since = listing.whole_second(moment)
        for change in self.updated_since(moment, projects=projects, maximum=maximum):
            if new := tuple(each for each in self.comments(change.number) if each.written >= since):
                yield change, new

    def patch_set_of(
        self, commit: str, *, project: str, change_id: str = "", branch: str = ""
    ) -> tuple[Change, PatchSet] | None:
        """Return the change that a commit came from and the patch set that it is; None where none is known.

        Where Gerrit does not know the commit, the only change with its Change-Id is taken.

        :param commit: the whole hash.
        :param change_id: what its message says; empty where it says none.
        :param branch: which change is meant where several branches have one of the same Change-Id.
        """
        return finding.patch_set_of(self._api, project, commit, change_id, branch)

    def post(self, change: int, patch_set: int, verdict: Verdict) -> Posted:
        """Post a verdict on a patch set, unless the newest of its job there says the same.

        A vote or notes that Gerrit does not take are left out, and the result says so. Where Gerrit's answer
        is lost, it is looked whether the verdict is there before it is posted again.

        :raises UsageError: if there is no such patch set, no text, or no job can have that name.
        """
        return posting.post_verdict(
            self._api, change, patch_set, verdict, label=self._label, notify=self._notify
        )

    def answer(self, change: int, comment: Comment, text: str, link: str = "") -> Posted:
        """Answer a comment, once: Gerrit remembers that it has an answer, whoever asks for another.

        :param link: where the whole of the text is, should it be too long.
        :raises UsageError: if there is no text.
        """
        return posting.post_answer(self._api, change, comment, text, link, notify=self._notify)

    def listen(self) -> EventStream:
        """Return the events from now on; use it as a context manager.

        Gerrit does not say from when on it tells them: look by :meth:`commented_since` a little later, too.

        :raises SettingsError: if no user is set, or a file for ssh is missing.
        """
        if not self._user:
            raise SettingsError("gerrit.user is not set; say who listens to the events")
        command = ssh_command(
            self._host, self._port, self._user,
            key=self._key, known_hosts=self._known_hosts, timeout_s=self._timeout_s,
        )  # fmt: skip
        return EventStream(command, f"ssh://{self._user}@{self._host}:{self._port}")
