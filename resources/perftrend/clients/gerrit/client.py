"""Client of a Gerrit server: changes, comments, verdicts and events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from perftrend.clients.gerrit import reviews
from perftrend.clients.gerrit.api import Api, Transport, phrase
from perftrend.clients.gerrit.changes import (
    OUTLINE,
    Account,
    AccountGroup,
    ChangedFile,
    Comment,
    GerritChange,
    LabelRights,
    PatchSet,
)
from perftrend.clients.gerrit.reviews import PostResult, ReviewVerdict
from perftrend.clients.gerrit.stream import EventStream, check_ssh, ssh_command
from perftrend.clients.http_service import TooLargeError, Wait, pause_before_retry
from perftrend.errors import SettingsError, UsageError, nearest
from perftrend.settings import GerritSettings

_MOST = 10
_CHANGE_ID = re.compile(r"I[0-9a-f]{40}")
_PAGE = 100


def connect(settings: GerritSettings) -> Gerrit:
    """Return the Gerrit that the settings name. No request is sent yet.

    :raises SettingsError: if they do not name one, or name a user without a token.
    """
    if not settings.url:
        raise SettingsError("gerrit.url is not set; give the address of Gerrit")
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
    """A Gerrit server, as seen by one user. Threads may share it.

    :param url: its address, such as ``https://review.example.org``, without user and password.
    :param user: the user of the requests; None: anonymous, which permits reading only.
    :param token: the user's HTTP password.
    :param ssh_host: host of the event stream; None: the host of the address.
    :param ssh_key: file with the private key; None: the default of ssh.
    :param known_hosts: file with the trusted host keys; None: the default of ssh.
    :param label: the label that verdicts vote on; None: they do not vote.
    :param notify: recipients of mails: ``none``, ``owner``, ``owner-reviewers`` or ``all``.
    :param timeout_s: maximum wait for bytes of the server.
    :param attempts: maximum number of attempts of a request.
    :param wait: pause between attempts; by default what the server requests, or exponential backoff.
    :raises UsageError: if the address is not valid, or a user has no token.

    Every method raises ServiceError if the server refuses, fails or does not respond like Gerrit, in
    particular :class:`UnavailableError` if a later attempt may succeed.
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
        wait: Wait = pause_before_retry,
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
        """The account of the requests, which identifies what it wrote itself."""
        return self._api.account

    def groups(self, account: Account) -> tuple[AccountGroup, ...]:
        """Return the groups that an account is a member of, directly or through other groups.

        Groups that the user cannot see are not included.
        """
        number = account.number if account.number is not None else self._api.number(account.username)
        return () if number is None else self._api.groups_of(number)

    def check_groups(self, names: Sequence[str]) -> None:
        """Reject groups that the user cannot see, since no account would ever match them.

        :param names: names or identities.
        :raises SettingsError: for the first group that is not visible.
        """
        known = self._api.groups()
        for name in names:
            if all(name not in (group.name, group.identity) for group in known):
                choices = nearest(name, (group.name for group in known))
                raise SettingsError(f"gerrit.groups: the user {self._user!r} sees no group {name!r}{choices}")

    def label_rights(self, project: str = "") -> LabelRights | None:
        """Return the user's votes on the newest open change; None if the user sees none.

        :param project: name of its project; empty for any.
        """
        return self._api.label_rights(self._label or "", project)

    def may_stream(self) -> bool:
        """Return whether the user may read the events."""
        return self._api.may_stream()

    def change(self, number: int) -> GerritChange:
        """Return a change with all its patch sets and the votes on the newest one."""
        return self._api.change(number)

    def page(self, change: GerritChange) -> str:
        """Return the URL of a change's page."""
        return f"{self.url}/c/{quote(change.project)}/+/{change.number}"

    def files(self, change: int, patch_set: int) -> tuple[ChangedFile, ...]:
        """Return the files that a patch set touches, by path; of a merge, compared with all its parents."""
        return self._api.files(change, patch_set)

    def comments(self, change: int) -> tuple[Comment, ...]:
        """Return the messages and the comments of a change in chronological order."""
        return self._api.comments(change)

    def changes_updated_since(
        self, moment: datetime, *, projects: Sequence[str] = (), maximum: int = 500
    ) -> Iterator[GerritChange]:
        """Yield the changes that were updated at or after a time, the latest first, each once.

        They are requested page by page during the iteration, with only their newest patch set.

        :param moment: with a time zone; rounded down to a whole second.
        :param projects: the projects to search; none: all.
        :param maximum: maximum number of changes.
        :raises TooLargeError: after the last one, if there are more.
        """
        return changes_updated_since(self._api, moment, projects, maximum)

    def changes_commented_since(
        self, moment: datetime, *, projects: Sequence[str] = (), maximum: int = 500
    ) -> Iterator[tuple[GerritChange, tuple[Comment, ...]]]:
        """Yield the changes with comments at or after a time, and these comments.

        Gerrit stores whole seconds, so all comments of the second that contains ``moment`` are included.
        Parameters and errors are those of :meth:`changes_updated_since`.
        """
        since = whole_second(moment)
        for change in self.changes_updated_since(moment, projects=projects, maximum=maximum):
            if new := tuple(each for each in self.comments(change.number) if each.written >= since):
                yield change, new

    def patch_set_of(
        self, commit: str, *, project: str, change_id: str = "", branch: str = ""
    ) -> tuple[GerritChange, PatchSet] | None:
        """Return the change and the patch set of a commit; None if none is known.

        If Gerrit does not know the commit, the only change with its Change-Id is used.

        :param commit: the full hash.
        :param change_id: from the commit message; empty if it has none.
        :param branch: selects the change if several branches have one with the same Change-Id.
        """
        return patch_set_of(self._api, project, commit, change_id, branch)

    def post(self, change: int, patch_set: int, verdict: ReviewVerdict) -> PostResult:
        """Post a verdict on a patch set, unless the newest verdict of its job there has the same text.

        A vote or notes that Gerrit refuses are left out, and the result contains the reason. If Gerrit's
        response is lost, the next attempt first checks whether the verdict exists.

        :raises UsageError: if the patch set does not exist, or the text or the name of the job is not valid.
        """
        return reviews.post_verdict(
            self._api, change, patch_set, verdict, label=self._label, notify=self._notify
        )

    def answer(self, change: int, comment: Comment, text: str, link: str = "") -> PostResult:
        """Answer a comment once: the answer's tag in Gerrit prevents a second one.

        :param link: URL of the full text, if the text has to be cut.
        :raises UsageError: if the text is empty.
        """
        return reviews.post_answer(self._api, change, comment, text, link, notify=self._notify)

    def listen(self) -> EventStream:
        """Return the stream of events from now on; use it as a context manager.

        Gerrit does not report when the stream begins; call :meth:`changes_commented_since` a little later,
        too.

        :raises SettingsError: if no user is set, or a file for ssh is missing.
        """
        return EventStream(self._ssh(), self._ssh_name)

    def check_ssh(self) -> None:
        """Log in by SSH as :meth:`listen` does, and end the connection; raises the same errors."""
        check_ssh(self._ssh("gerrit", "version"), self._ssh_name)

    @property
    def _ssh_name(self) -> str:
        return f"ssh://{self._user}@{self._host}:{self._port}"

    def _ssh(self, *command: str) -> list[str]:
        if not self._user:
            raise SettingsError("gerrit.user is not set; give a user who may read the events")
        return ssh_command(
            self._host, self._port, self._user, *command,
            key=self._key, known_hosts=self._known_hosts, timeout_s=self._timeout_s,
        )  # fmt: skip


def patch_set_of(
    api: Api, project: str, commit: str, change_id: str = "", branch: str = ""
) -> tuple[GerritChange, PatchSet] | None:
    """Return the change and the patch set of a commit.

    A commit that Gerrit does not know may still come from a change, if it was cherry-picked or rebased
    elsewhere. Then the only change with its Change-Id in the project, or the only one on the branch, is
    returned, with its newest patch set.
    """
    where = f"project:{phrase(project)}"
    for listed in _changes(api, f"commit:{phrase(commit)} {where}"):
        change = api.change(listed.number)
        for each in change.patch_sets:
            if each.revision == commit:
                return change, each
    if not _CHANGE_ID.fullmatch(change_id):
        return None
    found = _changes(api, f"change:{change_id} {where}")
    if len(found) > 1:
        found = [each for each in found if each.branch == branch]
    return (found[0], found[0].current) if len(found) == 1 else None


def _changes(api: Api, query: str) -> list[GerritChange]:
    return [api.read_change(each) for each in api.changes(query, 0, _MOST, OUTLINE)]


def changes_updated_since(
    api: Api, moment: datetime, projects: Sequence[str], maximum: int, page: int = _PAGE
) -> Iterator[GerritChange]:
    """Yield changes, the last updated first, each once.

    :raises TooLargeError: after ``maximum`` of them, if there are more.
    :raises UsageError: if the moment has no time zone.
    """
    query = _query(moment, projects)
    seen: set[int] = set()
    start, is_more = 0, True
    while is_more:
        listed = api.changes(query, start, page, OUTLINE)
        for change in map(api.read_change, listed):
            # A change that is updated meanwhile moves to the front, and shifts another to the next page.
            if change.number in seen:
                continue
            if len(seen) == maximum:
                raise TooLargeError(
                    f"{api.transport.url}: more than {maximum} changes were updated since "
                    f"{moment:%Y-%m-%d %H:%M:%S %Z}; request fewer"
                )
            seen.add(change.number)
            yield change
        start += len(listed)
        is_more = bool(listed) and listed[-1].get("_more_changes") is True


def whole_second(moment: datetime) -> datetime:
    """Return a time without its fraction of a second, which Gerrit does not store."""
    return moment.replace(microsecond=0)


def _query(moment: datetime, projects: Sequence[str]) -> str:
    if moment.tzinfo is None:
        raise UsageError(f"{moment} has no time zone; give one")
    after = f'after:"{whole_second(moment).astimezone(UTC):%Y-%m-%d %H:%M:%S}"'
    chosen = " OR ".join(f"project:{phrase(name)}" for name in projects)
    return f"{after} ({chosen})" if chosen else after
