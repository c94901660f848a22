from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.store import Store
from perftrend.store.shortcuts import LONGEST_QUERY, MOST_TRACES

IDS = (",test=a,", '@norm(filter("test=a"))')


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_shortcut_gives_back_what_it_holds(store: Store) -> None:
    identity = store.shortcuts.save(IDS, user="eva")

    assert store.shortcuts.load(identity) == IDS


def test_the_same_is_kept_once(store: Store) -> None:
    first = store.shortcuts.save(IDS, user="eva")
    other = store.shortcuts.save(IDS[:1], user="eva")

    assert first == store.shortcuts.save(IDS, user="bob")
    assert first != other


def test_the_same_kept_by_many_at_once_is_kept_once(store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: store.shortcuts.save(IDS, user="eva"), range(24)))

    assert {store.shortcuts.save(IDS, user="eva")} == found


@pytest.mark.parametrize("identity", ["7", "", "-1", "x", "²", "9" * 30, "1; drop table shortcuts"])
def test_what_is_no_shortcut_holds_nothing(store: Store, identity: str) -> None:
    assert store.shortcuts.load(identity) is None


@pytest.mark.parametrize("ids", [[], ["x"] * (MOST_TRACES + 1), ["x" * 300_000]])
def test_too_little_or_too_much_is_refused(store: Store, ids: list[str]) -> None:
    with pytest.raises(UsageError):
        store.shortcuts.save(ids, user="eva")


def test_page_is_kept_under_its_own_key(store: Store) -> None:
    key = store.short_urls.save("q=a%3Db", user="eva")

    assert store.short_urls.query(key) == "q=a%3Db"
    assert key == store.short_urls.save("q=a%3Db", user="bob")
    assert key != store.short_urls.save("q=a%3Dc", user="eva")
    assert len(key) == 12


def test_page_that_is_too_long_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="too many"):
        store.short_urls.save("x" * (LONGEST_QUERY + 1), user="eva")
