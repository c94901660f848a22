from __future__ import annotations

import shlex

import pytest

from perftrend.bisect.command import prepare
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.trigger import Trigger, parse

SETTINGS = Settings.load(environment={})
OLD, NEW = "0123abcd" * 5, "89abcdef" * 5
TEST = "64b-1c-ethip4-ip4base-acl20-ndrpdr"


def key(test: str) -> TraceKey:
    return TraceKey.of(test=test, testbed="2n-clx")


def test_comment_is_understood_by_the_trigger() -> None:
    found = prepare(SETTINGS, "2n-clx", key(TEST), old=OLD, new=NEW)
    assert found is not None
    (asked,) = parse(found.comment)

    assert isinstance(asked, Trigger)
    assert (asked.job, asked.testbed, asked.old) == ("bisect", "2n-clx", OLD)
    assert asked.include == ("ndrpdrAND64bAND1cANDethip4-ip4base-acl20",)


def test_command_names_both_commits() -> None:
    found = prepare(SETTINGS, "2n-clx", key("64b-1c-ethip4-ip4base"), old=OLD, new=NEW)
    assert found is not None

    assert found.command.split() == [
        "./run", "bisect", "--testbed", "2n-clx", "--old", OLD, "--new", NEW,
        "--tags", "64bAND1cANDethip4-ip4base",
    ]  # fmt: skip


@pytest.mark.parametrize("test", ["x; rm -rf /", "$(reboot)", "a test", "64b-1c-x OR 64b", "", "64b-1c-\n"])
def test_name_of_a_test_reaches_no_command(test: str) -> None:
    found = prepare(SETTINGS, "2n-clx", key(test), old=OLD, new=NEW)
    assert found is not None

    assert found.comment == f"bisecttest-2n-clx {OLD}"
    assert shlex.split(found.command)[-1] == NEW


def test_words_of_the_settings_are_used() -> None:
    trigger = SETTINGS.trigger.model_copy(update={"words": {"find-{testbed}": "bisect"}})
    settings = SETTINGS.model_copy(update={"trigger": trigger})
    found = prepare(settings, "2n-clx", None, old=OLD, new=NEW)
    assert found is not None

    assert found.comment == f"find-2n-clx {OLD}"


@pytest.mark.parametrize(("old", "new"), [("", NEW), (OLD, ""), (NEW, NEW)])
def test_nothing_is_prepared_without_two_commits(old: str, new: str) -> None:
    assert prepare(SETTINGS, "2n-clx", None, old=old, new=new) is None
