from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

import pytest

from perftrend import files
from perftrend.errors import UsageError
from perftrend.report.folder import replace_report


def fill(directory: Path, text: str) -> None:
    with replace_report(directory) as fresh:
        (fresh / "index.html").write_text(text)


def names(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def test_old_directory_is_replaced_whole(tmp_path: Path) -> None:
    report = tmp_path / "report"
    fill(report, "old")
    (report / "data").mkdir()

    fill(report, "new")

    assert ["index.html"] == names(report)
    assert "new" == (report / "index.html").read_text()
    assert ["report"] == names(tmp_path)


def test_file_system_without_exchange_is_served_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, "no exchange here")

    monkeypatch.setattr(files, "_exchange", refuse)
    fill(tmp_path / "report", "old")

    fill(tmp_path / "report", "new")

    assert "new" == (tmp_path / "report" / "index.html").read_text()
    assert ["report"] == names(tmp_path)


def test_failed_exchange_puts_the_old_one_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path / "report", "old")
    rename = Path.rename

    def fail_for_the_new(path: Path, target: Path) -> Path:
        if (path / "index.html").read_text() == "new":
            raise OSError(errno.EIO, "broken disk")
        return rename(path, target)

    def refuse(one: Path, other: Path) -> None:
        raise OSError(errno.EINVAL, "no exchange here")

    monkeypatch.setattr(files, "_exchange", refuse)
    monkeypatch.setattr(Path, "rename", fail_for_the_new)
    with pytest.raises(OSError, match="broken disk"):
        fill(tmp_path / "report", "new")

    assert "old" == (tmp_path / "report" / "index.html").read_text()
    assert ["report"] == names(tmp_path)


def test_error_leaves_the_old_report_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path / "report", "old")

    def fill_half() -> None:
        with replace_report(tmp_path / "report") as fresh:
            (fresh / "index.html").write_text("half of")
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(OSError, match="full"):
        fill_half()

    assert "old" == (tmp_path / "report" / "index.html").read_text()
    assert ["report"] == names(tmp_path)


def test_somebodys_files_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "index.html").touch()
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(UsageError, match=r"'thesis\.tex', which is not part of a report"):
        fill(tmp_path, "new")

    assert ["index.html", "thesis.tex"] == names(tmp_path)


def test_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "report").touch()

    with pytest.raises(UsageError, match="is a file"):
        fill(tmp_path / "report", "new")


def test_parents_are_made_and_empty_directory_is_taken(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)

    fill(tmp_path / "a" / "b", "one")
    fill(tmp_path / "a" / "c" / "d", "two")

    assert "one" == (tmp_path / "a" / "b" / "index.html").read_text()
    assert "two" == (tmp_path / "a" / "c" / "d" / "index.html").read_text()


def test_what_a_link_points_to_is_replaced(tmp_path: Path) -> None:
    fill(tmp_path / "real", "old")
    (tmp_path / "link").symlink_to("real")

    fill(tmp_path / "link", "new")

    assert (tmp_path / "link").is_symlink()
    assert "new" == (tmp_path / "real" / "index.html").read_text()


def test_what_a_killed_writer_left_is_removed_but_not_a_young_one(tmp_path: Path) -> None:
    for name in (".report.old.tmp", ".report.young.tmp", ".reports.other.tmp"):
        (tmp_path / name).mkdir()
    for name in (".report.old.tmp", ".reports.other.tmp"):
        os.utime(tmp_path / name, (0, 0))

    fill(tmp_path / "report", "new")

    assert [".report.young.tmp", ".reports.other.tmp", "report"] == names(tmp_path)


def test_web_server_may_read_it(tmp_path: Path) -> None:
    fill(tmp_path / "report", "new")
    usual = tmp_path / "usual"
    usual.mkdir()

    assert stat.S_IMODE(usual.stat().st_mode) == stat.S_IMODE((tmp_path / "report").stat().st_mode)
