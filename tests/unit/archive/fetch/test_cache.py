"""What a kill leaves behind does not stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from perftrend.archive.fetch.builds import Version
from perftrend.archive.fetch.cache import CachedObject, FileCache, PartialFile

LOCATION = "https://logs.example.org/nightly/1/output.xml"


class KilledError(Exception):
    """Stands for a kill: nothing after it runs."""


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
