"""What was used longest ago makes room, nothing that is in use does, and a kill leaves nothing behind."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perftrend.archive.fetch.builds import Version
from perftrend.archive.fetch.cache import CachedObject, FileCache, PartialFile

LONG_AGO_S = 1_500_000_000
USER = """
import sys
from pathlib import Path
from perftrend.archive.fetch.cache import FileCache
with FileCache(Path(sys.argv[1])).pin_files():
    print("uses", flush=True)
    sys.stdin.read()
"""


def content(name: str, size: int = 40) -> bytes:
    return name.encode().ljust(size, b".")


def keep(cache: FileCache, name: str, size: int = 40) -> Path:
    with cache.partial(name) as partial:
        partial.begin(PartialFile(name, Version(size=size)))
        partial.append(content(name, size))
        return cache.store(partial, CachedObject(name, Version(size=size), partial.digest("sha256")))


def kept_long_ago(cache: FileCache, *names: str) -> None:
    for age, name in enumerate(names):
        os.utime(keep(cache, name), (LONG_AGO_S + age, LONG_AGO_S + age))


def found(cache: FileCache, *names: str) -> str:
    return "".join(name for name in names if cache.find(name))


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def test_what_was_used_longest_ago_makes_room(tmp_path: Path) -> None:
    kept_long_ago(FileCache(tmp_path), "b", "a", "c")
    cache = FileCache(tmp_path, maximum_bytes=120)

    keep(cache, "d")

    assert "cd" == found(cache, "a", "b", "c", "d")


def test_what_fits_stays(tmp_path: Path) -> None:
    kept_long_ago(FileCache(tmp_path), "a", "b")
    cache = FileCache(tmp_path, maximum_bytes=120)

    keep(cache, "c")

    assert "abc" == found(cache, "a", "b", "c")


def test_what_comes_later_is_counted(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=120)
    kept_long_ago(cache, "a", "b", "c")

    keep(cache, "d")

    assert "cd" == found(cache, "a", "b", "c", "d")


def test_what_is_used_again_is_not_what_was_used_longest_ago(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=120)
    kept_long_ago(cache, "a", "b", "c")
    with cache.partial("a") as partial:
        assert cache.recover(partial, "a")

    keep(cache, "d")

    assert "ad" == found(cache, "a", "b", "c", "d")


def test_what_was_removed_is_forgotten_and_may_come_again(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=100)
    kept_long_ago(cache, "a", "b")

    keep(cache, "c")

    assert ["b", "c"] == [path.read_bytes()[:1].decode() for path in sorted_objects(tmp_path)]
    assert 2 == len(files(tmp_path / "index"))
    with cache.partial("a") as partial:
        assert None is cache.recover(partial, "a")
    assert content("a") == keep(cache, "a").read_bytes()


def sorted_objects(folder: Path) -> list[Path]:
    return sorted((folder / "objects").glob("*/*"), key=Path.read_bytes)


def test_what_is_in_use_stays_however_much_it_is(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=50)
    kept_long_ago(FileCache(tmp_path), "old")
    with FileCache(tmp_path).pin_files():
        used = [keep(cache, name) for name in "abc"]

        assert [True] * 3 == [path.exists() for path in used]
        assert not cache.find("old")

    keep(cache, "d")
    assert not cache.find("a")


def test_object_that_was_there_is_in_use_from_when_it_was_found(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=50)
    kept_long_ago(FileCache(tmp_path), "a", "b")
    with cache.pin_files():
        with cache.partial("a") as partial:
            assert cache.recover(partial, "a")
        keep(cache, "c")

        assert "ac" == found(cache, "a", "b", "c")


def test_process_that_is_killed_uses_nothing_any_more(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=50)
    path = os.pathsep.join(filter(None, sys.path))
    with subprocess.Popen(
        [sys.executable, "-c", USER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    ) as user:
        assert user.stdout
        assert b"uses\n" == user.stdout.readline()
        keep(cache, "a")
        keep(cache, "b")
        assert "ab" == found(cache, "a", "b")
        user.kill()
        user.wait()

    keep(cache, "c")

    assert "" == found(cache, "a", "b")
    assert ["gate"] == files(tmp_path / "users")


def test_halves_that_nobody_goes_on_with_make_room(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=100)
    for name in ("left", "held"):
        with cache.partial(name) as partial:
            partial.begin(PartialFile(name, Version(size=400)))
            partial.append(b"x" * 80)
            os.utime(partial.path, (LONG_AGO_S, LONG_AGO_S))

    with cache.partial("held") as held:
        keep(cache, "a")

        assert 80 == held.size
        assert held.read_origin("held")
        assert [held.path.stem] * 2 == [Path(name).stem for name in files(tmp_path / "partial")]
    assert cache.find("a")
    with cache.partial("left") as partial:
        assert (0, None) == (partial.size, partial.read_origin("left"))


def test_complete_half_of_a_kill_long_ago_is_used_now(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=50)
    with cache.partial("a") as partial:
        partial.begin(PartialFile("a", Version(size=40)))
        partial.append(content("a"))
        os.utime(partial.path, (LONG_AGO_S, LONG_AGO_S))
    with cache.pin_files():
        with cache.partial("a") as partial:
            path = cache.store(partial, CachedObject("a", Version(size=40), partial.digest("sha256")))
        keep(cache, "b")

        assert path.exists()


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


@pytest.mark.parametrize("step", range(6))
def test_kill_at_any_step_leaves_a_cache_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    names = "abcdef"
    kept_long_ago(FileCache(tmp_path), *names)
    unlink, steps = Path.unlink, iter(range(step))

    def unlink_or_be_killed(path: Path, missing_ok: bool = False) -> None:
        if next(steps, None) is None:
            raise KilledError
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", unlink_or_be_killed)
        with pytest.raises(KilledError):
            keep(FileCache(tmp_path, maximum_bytes=120), "x")

    cache = FileCache(tmp_path, maximum_bytes=120)
    for name in names:
        with cache.partial(name) as partial:
            entry = cache.recover(partial, name)
        assert not entry or content(name) == cache.object(entry.sha256).read_bytes()
    for name in "yz":
        keep(cache, name)
    assert sum(path.stat().st_size for path in sorted_objects(tmp_path)) <= 120
    known = {
        hashlib.sha256(each.encode()).hexdigest() + ".json" for each in [*names, *"xyz"] if cache.find(each)
    }
    assert known == set(files(tmp_path / "index"))


def test_threads_that_share_a_small_cache_keep_what_they_use(tmp_path: Path) -> None:
    cache = FileCache(tmp_path, maximum_bytes=200)

    def use(number: int) -> bool:
        name = str(number % 7)
        with cache.pin_files():
            with cache.partial(name) as partial:
                entry = cache.recover(partial, name)
            path = cache.object(entry.sha256) if entry else keep(cache, name)
            return all(content(name) == path.read_bytes() for _ in range(5))

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(use, range(300)))

    keep(cache, "last")
    assert sum(path.stat().st_size for path in sorted_objects(tmp_path)) <= 200


LOCATION = "https://logs.example.org/nightly/1/output.xml"


def test_a_kill_between_writing_a_note_and_putting_it_in_place_leaves_no_litter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = FileCache(tmp_path)

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch, cache.partial(LOCATION) as partial:
        patch.setattr(Path, "replace", killed)
        with pytest.raises(KilledError):
            partial.begin(PartialFile(LOCATION, Version(size=3), None))
    with cache.partial(LOCATION) as partial:
        partial.begin(PartialFile(LOCATION, Version(size=3), None))
        partial.append(b"abc")
        cache.store(partial, CachedObject(LOCATION, Version(size=3), partial.digest("sha256")))

    assert [] == list((tmp_path / "partial").iterdir())
    assert 1 == len([path for path in (tmp_path / "index").rglob("*") if path.is_file()])
    found = cache.find(LOCATION)
    assert found is not None
    assert b"abc" == cache.object(found.sha256).read_bytes()
