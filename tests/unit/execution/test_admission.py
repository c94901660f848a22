"""Jobs check themselves who may start them, and what they need, when Jenkins's Gerrit Trigger starts them."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from perftrend.clients.gerrit import Account, AccountGroup
from perftrend.errors import SettingsError, UsageError
from perftrend.execution import admission
from perftrend.execution.job_request import VARIABLE, JobRequest, read_request
from perftrend.execution.permissions import key
from perftrend.execution.request_validation import InvalidRequestError, RequestPlan
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.requests import Request, RequestState
from tests.unit.listener.conftest import Clock, FakeGerrit

LINE = "perftest-2n-clx mrr"
MEMBER, OWNER, STRANGER = Account(1, "member"), Account(2, "owner"), Account(3, "stranger")
ONLY_MEMBERS = "only members of committers may start jobs here"
PLAN = RequestPlan(("a",), "about 2 hours", 2 * 3600.0)


class Jenkins:
    """Starts jobs as Gerrit Trigger does: with the text of a comment, the change and the patch set."""

    def __init__(self, folder: Path, gerrit: FakeGerrit) -> None:
        self.store, self.gerrit = folder / "store.sqlite", gerrit
        self.limits: dict[str, object] = {}

    @property
    def settings(self) -> Settings:
        of_gerrit = {"url": "https://review.example.org", "user": "perftrend", "groups": ("committers",)}
        overrides = {
            "store": str(self.store),
            "testbed": "2n-clx",
            "testbeds": str(self.store.parent),
            **{f"gerrit.{name}": value for name, value in {**of_gerrit, **self.limits}.items()},
        }
        return Settings.load(environment={"PERFTREND_GERRIT_TOKEN": "t"}, overrides=overrides)

    def request(self, text: str = LINE, **variables: str) -> JobRequest | None:
        told = {
            VARIABLE: base64.b64encode(text.encode()).decode(),
            "GERRIT_CHANGE_NUMBER": "1",
            "GERRIT_PATCHSET_NUMBER": "1",
            "GERRIT_EVENT_HASH": "12345",
            **variables,
        }
        return read_request(told, "perftest", self.settings)

    def run(self, text: str = LINE, plan: RequestPlan = PLAN, **variables: str) -> None:
        with admission.admitted(self.request(text, **variables), self.settings, lambda _: plan):
            pass

    def refusal(self, text: str = LINE, plan: RequestPlan = PLAN, **variables: str) -> str:
        with pytest.raises(UsageError) as refused:
            self.run(text, plan, **variables)
        return str(refused.value)

    def stored(self) -> list[tuple[str, str]]:
        """Return the accounts and states of the requests in the store."""
        with Store.open(self.store) as store:
            found = store.requests.in_states(*RequestState)
        return [(each.account, each.state.value) for each in found]


@pytest.fixture
def gerrit(monkeypatch: pytest.MonkeyPatch) -> FakeGerrit:
    found = FakeGerrit(Clock(), owner=OWNER, members={1: [AccountGroup("g1", "committers")]})
    found.write("Please have a look.", author=OWNER)
    monkeypatch.setattr(admission, "connect", lambda _: found)
    return found


@pytest.fixture
def jenkins(tmp_path: Path, gerrit: FakeGerrit) -> Jenkins:
    (tmp_path / "2n-clx.yaml").write_text("based_on: simulated\n")
    Store.open(tmp_path / "store.sqlite").close()
    return Jenkins(tmp_path, gerrit)


# ---- who


def test_member_starts_a_job_which_is_entered_until_its_end(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    gerrit.write(LINE, author=MEMBER)

    with admission.admitted(jenkins.request(), jenkins.settings, lambda _: PLAN):
        assert [("1", "admitted")] == jenkins.stored()

    assert [("1", "ended")] == jenkins.stored()


def test_end_of_a_job_that_fails_is_recorded(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    gerrit.write(LINE, author=MEMBER)

    with (
        pytest.raises(KeyboardInterrupt),
        admission.admitted(jenkins.request(), jenkins.settings, lambda _: PLAN),
    ):
        raise KeyboardInterrupt

    assert [("1", "ended")] == jenkins.stored()


def test_what_a_person_starts_by_hand_is_not_checked(jenkins: Jenkins) -> None:
    with admission.admitted(None, jenkins.settings, lambda _: PLAN):
        pass
    jenkins.run(GERRIT_CHANGE_NUMBER="", GERRIT_PATCHSET_NUMBER="")

    assert [] == jenkins.stored()


@pytest.mark.parametrize("author", [STRANGER, Account(3, "member", "Member", "member@example.org")])
def test_stranger_starts_nothing(jenkins: Jenkins, gerrit: FakeGerrit, author: Account) -> None:
    gerrit.write(LINE, author=author)

    found = jenkins.refusal(
        GERRIT_EVENT_ACCOUNT_EMAIL="member@example.org",
        GERRIT_EVENT_ACCOUNT_NAME="Member",
        GERRIT_EVENT_ACCOUNT='"Member" <member@example.org>',
        GERRIT_CHANGE_OWNER_EMAIL="member@example.org",
    )

    assert f'"{LINE}" starts nothing: {ONLY_MEMBERS}.' == found
    assert [("3", "refused")] == jenkins.stored()


def test_owner_needs_an_approval_of_the_patch_set(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    gerrit.write(LINE, author=OWNER)
    assert "has to comment 'ok to test' on patch set 1 first" in jenkins.refusal()

    gerrit.write("ok to test", author=MEMBER)
    gerrit.write(LINE, author=OWNER)
    jenkins.run()
    gerrit.write(LINE, author=OWNER, patch_set=2)

    assert "on patch set 2 first" in jenkins.refusal(GERRIT_PATCHSET_NUMBER="2")
    assert ["refused", "ended", "refused"] == [state for _, state in jenkins.stored()]


def test_without_groups_no_comment_starts_a_job(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    jenkins.limits["groups"] = ()
    gerrit.write(LINE, author=MEMBER)

    with pytest.raises(SettingsError, match=r"gerrit\.groups is not set"):
        jenkins.run()


def test_dry_run_needs_permission_too(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    line = f"{LINE} -- --dry-run"
    gerrit.write(line, author=STRANGER)
    assert ONLY_MEMBERS in jenkins.refusal(line)

    gerrit.write(line, author=MEMBER)
    jenkins.run(line, replace(PLAN, usual_s=1e6))

    assert [("3", "refused"), ("1", "told")] == jenkins.stored()


# ---- which comment


@pytest.mark.parametrize(
    ("comment", "variables"),
    [
        ({"text": "perftest-2n-clx pdr"}, {}),
        ({"text": f"> {LINE}"}, {}),
        ({"text": f"{LINE} -- --dry-run"}, {}),
        ({"patch_set": 2}, {}),
        ({"patch_set": None}, {}),
        ({}, {"GERRIT_PATCHSET_NUMBER": "2"}),
        ({"tag": "autogenerated:jenkins"}, {}),
        ({"path": "src/main.c", "line": 3}, {}),
        ({"author": None}, {}),
        ({"text": f"{LINE}\nperftest-2n-clx pdr"}, {}),
        ({"text": f"bisecttest-2n-clx abcdef1 mrr\n{LINE.replace('2n-clx', '1n-veth')}"}, {}),
    ],
)
def test_job_that_no_comment_on_the_patch_set_requests_is_refused(
    jenkins: Jenkins, gerrit: FakeGerrit, comment: dict[str, Any], variables: dict[str, str]
) -> None:
    gerrit.write(comment.pop("text", LINE), **{"author": MEMBER, **comment})

    found = jenkins.refusal(**variables)

    number = variables.get("GERRIT_PATCHSET_NUMBER", "1")
    assert f"no comment on patch set {number} of change 1 requests '{LINE}'; was it deleted?" == found


def test_patch_set_is_required(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    gerrit.write(LINE, author=MEMBER)

    assert "GERRIT_PATCHSET_NUMBER is not set" in jenkins.refusal(GERRIT_PATCHSET_NUMBER="")


@pytest.mark.parametrize("authors", [(MEMBER, STRANGER), (STRANGER, MEMBER)])
def test_copy_of_a_members_comment_starts_nothing(
    jenkins: Jenkins, gerrit: FakeGerrit, authors: tuple[Account, Account]
) -> None:
    """Whichever of the two builds begins first."""
    for author in authors:
        gerrit.write(LINE, author=author)

    outcomes = []
    for _ in authors:
        try:
            jenkins.run()
            outcomes.append("started")
        except InvalidRequestError:
            outcomes.append("refused")

    assert {"started", "refused"} == set(outcomes)
    assert {("1", "ended"), ("3", "refused")} == set(jenkins.stored())


def test_part_of_a_members_comment_is_not_that_comment(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    gerrit.write(f"perftest-2n-clx pdr\n{LINE}", author=MEMBER)
    gerrit.write(LINE, author=STRANGER)

    assert ONLY_MEMBERS in jenkins.refusal()


def test_without_a_store_the_newest_comment_counts(
    jenkins: Jenkins, gerrit: FakeGerrit, capsys: pytest.CaptureFixture[str]
) -> None:
    jenkins.store.unlink()
    gerrit.write(LINE, author=MEMBER)
    jenkins.run()
    gerrit.write(LINE, author=STRANGER)

    assert ONLY_MEMBERS in jenkins.refusal()
    assert not jenkins.store.exists()
    assert (
        f"perftrend: there is no store {jenkins.store}, so limits of a day and of queues do not apply\n"
    ) == capsys.readouterr().err


def test_build_that_is_started_again_is_the_same_request(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    jenkins.limits["jobs_per_day"] = 1
    gerrit.write(LINE, author=MEMBER)

    jenkins.run()
    jenkins.run()

    assert [("1", "ended")] == jenkins.stored()


def listened(jenkins: Jenkins, **others: Any) -> Request:
    """Enter a request as the listener does when it has started it."""
    found = jenkins.gerrit.comments_of[1][-1]
    request = jenkins.request()
    assert request
    usual: dict[str, Any] = {
        "key": key(found.message_id, request.trigger), "change": 1, "patch_set": 1, "project": "router",
        "branch": "master", "revision": "a" * 40, "ref": "refs/changes/01/1/1", "review": found.message_id,
        "comment": found.identity, "path": found.path, "account": "3", "asked": found.written, "place": 0,
        "line": LINE, "job": "perftest", "testbed": "2n-clx", "state": RequestState.STARTED,
    }  # fmt: skip
    entered = Request(**{**usual, **others})
    with Store.open(jenkins.store) as store:
        store.requests.add([entered])
    return entered


@pytest.mark.parametrize("state", RequestState)
def test_job_knows_whether_the_listener_has_ended_it(
    jenkins: Jenkins, gerrit: FakeGerrit, state: RequestState
) -> None:
    gerrit.write(LINE, author=MEMBER)
    started = listened(jenkins, state=state)

    found = admission.is_cancelled(jenkins.request(GERRIT_EVENT_HASH=started.key), jenkins.settings)

    assert (state in {"cancelling", "cancelled"}) == found


def test_job_that_the_listener_has_not_started_was_not_ended_by_it(
    jenkins: Jenkins, gerrit: FakeGerrit
) -> None:
    gerrit.write(LINE, author=MEMBER)
    listened(jenkins, state=RequestState.CANCELLED)

    assert not admission.is_cancelled(jenkins.request(), jenkins.settings)
    assert not admission.is_cancelled(None, jenkins.settings)
    jenkins.store.unlink()
    assert not admission.is_cancelled(jenkins.request(), jenkins.settings)


def test_request_that_the_listener_has_started_is_not_decided_again(
    jenkins: Jenkins, gerrit: FakeGerrit
) -> None:
    gerrit.write(LINE, author=STRANGER)
    looks = gerrit.looks

    jenkins.run(GERRIT_EVENT_HASH=listened(jenkins).key)

    assert (looks, [("3", "started")]) == (gerrit.looks, jenkins.stored())


@pytest.mark.parametrize(
    "different",
    [
        {"change": 2},
        {"patch_set": 2},
        {"line": "perftest-2n-clx pdr"},
        {"state": RequestState.REFUSED},
        {"state": RequestState.SEEN},
    ],
)
def test_key_of_another_request_proves_nothing(
    jenkins: Jenkins, gerrit: FakeGerrit, different: dict[str, Any]
) -> None:
    gerrit.write(LINE, author=STRANGER)

    hash_of_other = listened(jenkins, **{"key": "f" * 64, **different}).key

    assert ONLY_MEMBERS in jenkins.refusal(GERRIT_EVENT_HASH=hash_of_other)


def test_job_of_a_listener_with_another_store_finds_its_own_comment(
    jenkins: Jenkins, gerrit: FakeGerrit
) -> None:
    """Even if it is one of several lines of a comment, and others have copied it."""
    comment = gerrit.write(f"perftest-2n-clx pdr\n{LINE}", author=MEMBER)
    gerrit.write(LINE, author=STRANGER)
    request = jenkins.request()
    assert request

    jenkins.run(GERRIT_EVENT_HASH=key(comment.message_id, request.trigger))

    assert [("1", "ended")] == jenkins.stored()


# ---- how much


def test_job_that_has_ended_counts_with_the_time_that_it_took(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    jenkins.limits["hours_per_day"] = 3
    for change in (1, 2):
        gerrit.write(LINE, author=MEMBER, change=change)
    jenkins.run()

    jenkins.run(GERRIT_CHANGE_NUMBER="2")

    assert [("1", "ended"), ("1", "ended")] == jenkins.stored()
    with Store.open(jenkins.store) as store:
        found = store.requests.in_states(RequestState.ENDED)
    assert [("member", True, True)] * 2 == [
        (each.author, each.began is not None, each.duration_s is not None) for each in found
    ]


def test_limits_apply_to_the_jobs_of_a_person_together(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    jenkins.limits["hours_per_day"] = 3
    for change in (1, 2):
        gerrit.write(LINE, author=MEMBER, change=change)

    with admission.admitted(jenkins.request(), jenkins.settings, lambda _: PLAN):
        found = jenkins.refusal(GERRIT_CHANGE_NUMBER="2")

    assert (
        f'"{LINE}" starts nothing: it needs about 120 minutes, but the jobs of a person may need 3 hours in '
        "24 hours, of which about 60 minutes are left; select fewer tests. Please write: perftest-2n-clx TAGS"
    ) == found
    assert [("1", "ended"), ("1", "refused")] == jenkins.stored()


@pytest.mark.parametrize("has_store", [True, False])
def test_limit_of_one_request_needs_no_store(
    jenkins: Jenkins, gerrit: FakeGerrit, *, has_store: bool
) -> None:
    if not has_store:
        jenkins.store.unlink()
    jenkins.limits["hours_per_request"] = 1
    gerrit.write(LINE, author=MEMBER)

    assert "it needs about 120 minutes, but a request may need 1 hour; select" in jenkins.refusal()


def test_jobs_that_start_at_once_do_not_both_get_what_is_left(jenkins: Jenkins, gerrit: FakeGerrit) -> None:
    jenkins.limits["hours_per_day"] = 3
    for change in range(1, 5):
        gerrit.write(LINE, author=MEMBER, change=change)
    begin, all_decided = Barrier(4), Barrier(4)

    def run(change: int) -> bool:
        begin.wait()
        request = jenkins.request(GERRIT_CHANGE_NUMBER=str(change))
        try:
            with admission.admitted(request, jenkins.settings, lambda _: PLAN):
                all_decided.wait()
        except InvalidRequestError:
            all_decided.wait()
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        admitted = list(pool.map(run, range(1, 5)))

    assert 1 == sum(admitted)
