"""Posting of verdicts and answers, each once, even if Gerrit's response is lost.

Gerrit accepts the same message twice without an error. Therefore each attempt first checks whether the
message exists already, so a lost response does not lead to a duplicate.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from perftrend.clients.gerrit import reviews, validation
from perftrend.clients.gerrit.api import Api, change_path
from perftrend.clients.gerrit.changes import GerritChange
from perftrend.clients.gerrit.comments import Comment
from perftrend.clients.gerrit.people import Account
from perftrend.clients.gerrit.reviews import PostResult, ReviewVerdict
from perftrend.clients.web.errors import RefusedError

_REFUSED_STATUSES = (HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN, HTTPStatus.CONFLICT)
"""Statuses for a vote that is not permitted there, and for a note on a file that does not exist."""

_LESS = (frozenset[str](), frozenset({"labels"}), frozenset({"comments"}), frozenset({"labels", "comments"}))
"""Parts left out of a review, one set after the other, until Gerrit accepts it: the text matters most."""


def post_verdict(
    api: Api, change: int, patch_set: int, verdict: ReviewVerdict, *, label: str | None, notify: str
) -> PostResult:
    """Post a verdict, unless the newest one of its job on the patch set has the same text."""
    tag, text = reviews.verdict_tag(verdict.job), reviews.shorten(verdict.text, verdict.link)
    account = api.account

    def once() -> PostResult:
        found, messages = api.change_with_messages(change)
        found.patch_set(patch_set)
        earlier = reviews.newest(messages, tag, account, patch_set)
        if reviews.has_text(text, earlier):
            has_current_vote = verdict.vote is not None and patch_set == found.current.number
            return PostResult(is_new=False, vote=_vote(found, label, account) if has_current_vote else None)
        message = reviews.append_replacement_line(text, earlier)
        body = reviews.verdict_body(verdict, message, label=label, notify=notify)
        return _review(api, _review_path(change, patch_set), body)

    return api.transport.retrying(once)


def post_answer(api: Api, change: int, comment: Comment, text: str, link: str, *, notify: str) -> PostResult:
    """Post an answer to a comment, unless it has been answered."""
    tag = reviews.answer_tag(comment)
    body = reviews.answer_body(comment, reviews.shorten(text, link), notify=notify)
    account = api.account

    def once() -> PostResult:
        found, messages = api.change_with_messages(change)
        if reviews.newest(messages, tag, account, None):
            return PostResult(is_new=False)
        api.transport.post_once(_review_path(change, comment.patch_set or found.current.number), body)
        return PostResult(is_new=True)

    return api.transport.retrying(once)


def _review(api: Api, path: str, body: Mapping[str, Any]) -> PostResult:
    """Post a review, if necessary without its vote or its notes."""
    refusal = None
    for less in _LESS:
        if not less <= body.keys():
            continue
        try:
            answer = api.transport.post_once(path, {name: body[name] for name in body if name not in less})
        except RefusedError as error:
            if error.status not in _REFUSED_STATUSES:
                raise
            refusal = error
            continue
        with validation.convert_errors(f"{api.transport.url}/{path}"):
            return _post_result(body.get("labels", {}), validation.table(answer), less, str(refusal or ""))
    raise refusal or AssertionError("a review is accepted or refused")


def _post_result(
    wanted: Mapping[str, int], answer: Mapping[str, Any], less: frozenset[str], why: str
) -> PostResult:
    """Return the result of a review that Gerrit accepted.

    :param wanted: the vote, by label.
    :param less: the parts that were left out.
    :param why: the preceding refusal.
    """
    accepted = validation.table(answer.get("labels") or {})
    ignored = wanted.keys() - accepted.keys()
    votes = [validation.whole(accepted[label]) for label in wanted if label in accepted]
    # Gerrit silently ignores a label or a value that does not exist.
    silent = (
        f"the project has no label {', '.join(ignored)} with such a vote; see gerrit.label" if ignored else ""
    )
    return PostResult(
        is_new=True,
        vote=votes[0] if votes else None,
        unvoted=why if "labels" in less else silent,
        unnoted=why if "comments" in less else "",
    )


def _vote(change: GerritChange, label: str | None, account: Account) -> int | None:
    """Return an account's vote on the newest patch set: 0 if it has none, None without a label."""
    if label is None:
        return None
    votes = [each.value for each in change.votes if each.label == label and each.account.is_same(account)]
    return votes[0] if votes else 0


def _review_path(change: int, patch_set: int) -> str:
    return f"{change_path(change)}/revisions/{patch_set:d}/review"
