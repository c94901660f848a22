"""What ends jobs: a comment, a new patch set, an abandoned change; who may, what is answered, and crashes."""

from __future__ import annotations

from typing import Any

import pytest

from perftrend.clients.gerrit import AccountGroup
from perftrend.errors import ServiceError
from perftrend.listener.runner import CancelResult, RequestRejectedError
from perftrend.settings import GerritSettings
from perftrend.store.requests import Requests, RequestState
from tests.unit.listener.conftest import DEV, OTHER, OWNER
from tests.unit.listener.test_crashes import Crash, Killed

LINE = "perftest-2n-clx mrrAND64b"
BISECT = "bisecttest-2n-clx 3ab5c9d mrr"
CANCEL = "canceltest-2n-clx"
ABORTED = f'"{CANCEL}": "{LINE}" on patch set 1 was aborted.'


def serve(listener: Any) -> None:
    """Do what the service does until nothing is left."""
    listener.poller().everywhere()
    processor = listener.processor
    while processor.work():
        pass


def states(listener: Any) -> dict[str, str]:
    return {each.line: each.state.value for each in listener.store.requests.in_states(*RequestState)}


def test_comment_ends_the_jobs_of_the_change_on_the_testbed(listener: Any) -> None:
    listener.gerrit.write(f"{LINE}\n{BISECT}\nperftest-1n-veth")
    listener.gerrit.write(LINE, change=2)
    serve(listener)
    listener.gerrit.write(CANCEL)

    serve(listener)

    assert [LINE, BISECT] == listener.runner.cancelled
    assert f'{ABORTED.rstrip(".")}; "{BISECT}" on patch set 1 was aborted.' == listener.answers[-1]
    assert {"cancelled", "started", "done"} == set(listener.states())


def test_cancelled_request_is_never_started_again(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL)
    serve(listener)

    for _ in range(3):
        serve(listener)

    assert ([LINE], [LINE]) == (listener.runner.started, listener.runner.cancelled)
    assert {LINE: "cancelled", CANCEL: "done"} == states(listener)
    assert [] == listener.store.requests.list_open()


def test_request_that_has_not_been_started_is_not_started(listener: Any) -> None:
    listener.gerrit.write(LINE)
    listener.gerrit.write(CANCEL)
    listener.runner.failures.append(ServiceError("Jenkins is being restarted"))
    listener.runner.results = [CancelResult.NEVER_BEGAN]
    listener.poller().everywhere()
    with pytest.raises(ServiceError):
        listener.processor.work()

    serve(listener)

    assert [] == listener.runner.started
    assert f'"{LINE}" was removed from the queue.' == listener.answers[0]
    assert ABORTED.replace("aborted", "removed from the queue") == listener.answers[1]


def test_only_what_was_requested_before_is_ended(listener: Any) -> None:
    listener.gerrit.write(f"{CANCEL}\n{LINE}")

    serve(listener)

    assert ([LINE], []) == (listener.runner.started, listener.runner.cancelled)
    assert {LINE: "started", CANCEL: "done"} == states(listener)


def test_job_of_a_comment_of_the_same_second_is_ended(listener: Any) -> None:
    written = listener.clock.now
    listener.gerrit.write(LINE, identity="z", written=written)
    serve(listener)
    listener.gerrit.write(CANCEL, identity="a", written=written)

    serve(listener)

    assert {LINE: "cancelled", CANCEL: "done"} == states(listener)


def test_nothing_to_end_is_answered(listener: Any) -> None:
    listener.gerrit.write(CANCEL)

    serve(listener)

    assert [f'"{CANCEL}": nothing of this change is queued or running there.'] == listener.answers


def test_job_that_ended_by_itself_is_no_error(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL)
    listener.runner.results = [CancelResult.HAD_ENDED]

    serve(listener)

    assert f'"{CANCEL}": "{LINE}" on patch set 1 had already ended.' == listener.answers[-1]
    assert {LINE: "ended", CANCEL: "done"} == states(listener)


def test_reply_waits_for_the_job_but_not_forever(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL)
    listener.runner.results = [CancelResult.PENDING] * 1000

    serve(listener)

    assert ABORTED.replace("was aborted", "is ending") == listener.answers[-1]
    listener.runner.results.clear()
    serve(listener)
    assert {LINE: "cancelled", CANCEL: "done"} == states(listener)
    assert 2 == len(listener.answers)


def test_failure_of_the_runner_is_tried_again(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL)
    listener.poller().everywhere()
    listener.processor.work()
    listener.runner.failures.append(ServiceError("Jenkins is being restarted"))
    with pytest.raises(ServiceError):
        listener.processor.work()

    serve(listener)

    assert ABORTED == listener.answers[-1]


def test_job_that_may_not_be_ended_continues_and_the_reply_says_so(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL)
    listener.poller().everywhere()
    listener.processor.work()
    listener.runner.failures.append(RequestRejectedError("403 Forbidden"))

    serve(listener)

    assert listener.answers[-1].endswith(
        "continues, because it cannot be ended here; see the log of the listener."
    )
    assert {LINE: "started", CANCEL: "done"} == states(listener)


# ---- who may


@pytest.fixture
def limited(listener: Any) -> Any:
    """Return a listener with groups; the author of the usual comments is a member."""
    listener.settings = GerritSettings(groups=("committers",))
    listener.gerrit.members = {1: [AccountGroup("c", "committers")], 2: [], 3: []}
    return listener


def test_stranger_may_end_nothing(limited: Any) -> None:
    listener = limited
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL, author=OTHER)

    serve(listener)

    wrong = "only those who started jobs, the owner of the change and members of committers may end them"
    assert f'"{CANCEL}" starts nothing: {wrong}.' == listener.answers[-1]
    assert [] == listener.runner.cancelled


def test_former_member_ends_the_own_jobs_alone(limited: Any) -> None:
    listener = limited
    listener.gerrit.members[2] = listener.gerrit.members[1]
    listener.gerrit.write(LINE)
    listener.gerrit.write(BISECT, author=OTHER)
    serve(listener)
    listener.gerrit.members[2] = []
    listener.gerrit.write(CANCEL, author=OTHER)

    serve(listener)

    assert [BISECT] == listener.runner.cancelled
    assert "; other jobs continue: only those who started jobs" in listener.answers[-1]


def test_owner_of_the_change_ends_all_of_them(limited: Any) -> None:
    listener = limited
    listener.gerrit.owner = OWNER
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.write(CANCEL, author=OWNER)

    serve(listener)

    assert ABORTED == listener.answers[-1]


@pytest.mark.parametrize(("group", "cancelled"), [("committers", [LINE]), ("guests", [])])
def test_member_of_the_groups_that_may_start_jobs_ends_all_of_them(
    limited: Any, group: str, cancelled: list[str]
) -> None:
    listener = limited
    listener.gerrit.members[2] = [AccountGroup("x", group)]
    listener.gerrit.write(LINE, author=DEV)
    serve(listener)
    listener.gerrit.write(CANCEL, author=OTHER)

    serve(listener)

    assert cancelled == listener.runner.cancelled


def test_cancelling_counts_towards_the_limit_of_requests_that_start_nothing(listener: Any) -> None:
    for _ in range(4):
        listener.gerrit.write(CANCEL)

    serve(listener.limited_to(2))

    assert ["done", "done", "limited", "ignored"] == listener.states()
    assert 3 == len(listener.answers)


# ---- new patch sets and abandoned changes


def test_new_patch_set_ends_the_jobs_that_build_an_older_one(listener: Any) -> None:
    lines = (LINE, BISECT, "trendingtest-2n-clx")
    listener.gerrit.write("\n".join(lines))
    serve(listener)
    listener.gerrit.upload()

    serve(listener)
    serve(listener)

    assert [LINE, BISECT] == listener.runner.cancelled
    texts = (f'"{each}" on patch set 1 was aborted' for each in lines[:2])
    assert [f"Patch set 3 was uploaded: {'; '.join(texts)}."] == listener.answers[1:]


def test_new_patch_set_after_the_end_of_a_job_is_no_news(listener: Any) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.upload()
    listener.runner.results = [CancelResult.HAD_ENDED]

    serve(listener)
    serve(listener)

    assert {LINE: "ended", "Patch set 3 was uploaded": "done"} == states(listener)
    assert 1 == len(listener.answers)
    assert [] == listener.store.requests.list_open()


@pytest.mark.parametrize("kind", ["NO_CODE_CHANGE", "NO_CHANGE"])
def test_new_commit_message_ends_nothing(listener: Any, kind: str) -> None:
    listener.gerrit.write(LINE)
    serve(listener)
    listener.gerrit.upload(kind)

    serve(listener)

    assert ([], {LINE: "started"}) == (listener.runner.cancelled, states(listener))


def test_request_for_an_older_patch_set_after_the_newer_one_is_run(listener: Any) -> None:
    listener.gerrit.upload()
    listener.gerrit.write(LINE, patch_set=1)

    serve(listener)

    assert ([LINE], []) == (listener.runner.started, listener.runner.cancelled)


def test_patch_set_that_was_uploaded_during_an_outage_prevents_the_start(listener: Any) -> None:
    listener.gerrit.write(LINE)
    listener.gerrit.upload()
    listener.runner.results = [CancelResult.NEVER_BEGAN]

    serve(listener)

    assert [] == listener.runner.started
    assert {LINE: "cancelled", "Patch set 3 was uploaded": "done"} == states(listener)


def test_abandoned_change_ends_everything_of_it(listener: Any) -> None:
    listener.gerrit.write(f"{LINE}\ntrendingtest-1n-veth")
    serve(listener)
    listener.gerrit.status = "ABANDONED"

    serve(listener)
    serve(listener)

    assert [LINE, "trendingtest-1n-veth"] == listener.runner.cancelled
    (answer,) = listener.answers[1:]
    assert answer.startswith(f'The change was abandoned: "{LINE}" on patch set 1 was aborted; ')


def test_change_that_is_abandoned_twice_is_answered_twice(listener: Any) -> None:
    for _ in range(2):
        listener.gerrit.status = "NEW"
        listener.gerrit.write(LINE)
        serve(listener)
        listener.gerrit.status = "ABANDONED"
        serve(listener)

    assert [LINE, LINE] == listener.runner.cancelled
    assert 2 == sum(each.startswith("The change was abandoned") for each in listener.answers)


def test_change_with_no_active_job_is_not_read_again(listener: Any) -> None:
    listener.gerrit.write("Looks good")
    listener.gerrit.status = "ABANDONED"

    serve(listener)

    assert ([], []) == (listener.states(), listener.answers)


# ---- crashes


STEPS = 8


def steps(listener: Any, patch: pytest.MonkeyPatch, crash: Crash) -> None:
    for name in ("add", "change", "cancel", "mark_answered", "set_mark"):
        patch.setattr(Requests, name, crash.around(getattr(Requests, name)))
    patch.setattr(listener.runner, "cancel", crash.around(listener.runner.cancel))
    patch.setattr(listener.gerrit, "answer", crash.around(listener.gerrit.answer))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", range(1, STEPS + 1))
@pytest.mark.parametrize("cause", ["comment", "patch set"])
def test_killed_at_any_step_it_ends_each_job_and_answers_once(
    step: int, after: bool, cause: str, listener: Any
) -> None:  # fmt: skip
    listener.gerrit.write(f"{LINE}\n{BISECT}")
    serve(listener)
    if cause == "comment":
        listener.gerrit.write(CANCEL)
    else:
        listener.gerrit.upload()
    with pytest.MonkeyPatch.context() as patch:
        crash = Crash(step, after=after)
        steps(listener, patch, crash)
        try:
            serve(listener)
        except Killed:
            pass
        else:
            assert cause == "patch set"

    serve(listener)

    assert {LINE, BISECT} == set(listener.runner.cancelled)
    assert {"cancelled", "done"} == set(listener.states())
    assert 2 == len(listener.answers)
    assert [] == listener.store.requests.list_open()
