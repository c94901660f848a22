"""Who may start jobs by a comment on a patch set, and who may end them.

- A member of the groups of the setting ``gerrit.groups`` may start jobs on every patch set. The comment is on
  that patch set, so its author vouches for this code.
- The owner of a change may start jobs on the patch sets that a member has approved by a comment "ok to test".
  A patch set is code that nobody has reviewed yet, and a job runs it; a new one needs a new approval.
- All others may not.

These may end a job: the author of the comment that started it, the owner of the change, and members.

All of this is what Gerrit reports, by the numbers of accounts: names and addresses in events and environment
variables decide nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from perftrend.clients.gerrit import Account, AccountGroup, Comment, GerritChange, RefusedError
from perftrend.errors import SettingsError
from perftrend.execution.comment_reviews import find_reviews, identity_of
from perftrend.trigger.lines import own_lines, visible

ALL_USERS = ("Registered Users", "global:Registered-Users")
"""Name and identity of Gerrit's own group of all users who are signed in."""
APPROVAL = "ok to test"
_LINE = re.compile(rf"\n[ ]{{0,3}}{APPROVAL}\.?[^\S\n]*+(?=\n|\Z)", re.ASCII | re.IGNORECASE)


class Review(Protocol):
    """The queries to Gerrit that the decision needs."""

    @property
    def account(self) -> Account:
        """The account of the requests."""
        ...

    def groups(self, account: Account) -> Sequence[AccountGroup]:
        """Return the groups that an account is a member of."""
        ...

    def change(self, number: int) -> GerritChange:
        """Return a change."""
        ...

    def comments(self, number: int) -> Sequence[Comment]:
        """Return all comments of a change."""
        ...


def require_groups(groups: Sequence[str]) -> None:
    """Check that the settings say who may start jobs.

    :raises SettingsError: if they do not.
    """
    if not groups:
        raise SettingsError(
            "gerrit.groups is not set, so no comment may start a job; name the groups whose members may, "
            f"or '{ALL_USERS[0]}' for everybody who is signed in"
        )


def includes_all_users(groups: Iterable[str]) -> bool:
    """Return whether everybody who is signed in may start jobs."""
    return any(each in ALL_USERS for each in groups)


def why_not(gerrit: Review, groups: Sequence[str], author: Account, change: int, patch_set: int) -> str:
    """Return why a user may not start jobs on a patch set; empty if the user may.

    :param groups: names or identities of the groups whose members may.
    :param author: the author of the comment.
    :raises SettingsError: if there are no groups.
    :raises ServiceError: if Gerrit does not answer.
    """
    require_groups(groups)
    if _is_member(gerrit, groups, author):
        return ""
    names = " or ".join(groups)
    if not gerrit.change(change).owner.is_same(author):
        return f"only members of {names} may start jobs here"
    if any(_approves(gerrit, groups, each) for each in _approvers(gerrit, change, patch_set)):
        return ""
    return f"a member of {names} has to comment '{APPROVAL}' on patch set {patch_set} first"


def why_not_end(gerrit: Review, groups: Sequence[str], author: Account, change: int) -> str:
    """Return why a user may not end the jobs that others have started on a change; empty if the user may.

    :param groups: names or identities of the groups whose members may start jobs.
    :param author: the author of the comment.
    :raises ServiceError: if Gerrit does not answer.
    """
    if gerrit.change(change).owner.is_same(author) or _is_member(gerrit, groups, author):
        return ""
    names = " or ".join(groups)
    return f"only those who started jobs, the owner of the change and members of {names} may end them"


def _is_member(gerrit: Review, groups: Sequence[str], account: Account) -> bool:
    return includes_all_users(groups) or any(
        name in groups for group in gerrit.groups(account) for name in (group.name, group.identity) if name
    )


def _approves(gerrit: Review, groups: Sequence[str], account: Account) -> bool:
    try:
        return _is_member(gerrit, groups, account)
    except RefusedError:
        # An account that is not visible must not prevent the approval by another one.
        return False


def _approvers(gerrit: Review, change: int, patch_set: int) -> Iterator[Account]:
    """Yield the authors of approvals of a patch set, each once."""
    found: dict[str, Account] = {}
    for review in find_reviews(gerrit.comments(change), ours=gerrit.account):
        if any(each.patch_set == patch_set and is_approval(each.text) for each in review.comments):
            found.setdefault(identity_of(review.author), review.author)
    yield from found.values()


def is_approval(text: str) -> bool:
    """Return whether a comment has a paragraph of its author's own that is only "ok to test"."""
    lines = own_lines(visible(text), _LINE, lambda _: True)
    return any(not line.above.strip() and not line.below.strip() for line in lines)
