from __future__ import annotations

import io
import re
from collections.abc import Callable

import pytest

from perftrend import report
from perftrend.model import Outcome, Verdict

MakeVerdict = Callable[..., Verdict]


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def lines(*verdicts: Verdict, stream: io.StringIO | None = None) -> list[str]:
    stream = stream or io.StringIO()
    report.terminal_table(verdicts, stream=stream)
    return stream.getvalue().splitlines()


def test_row_is_one_line_where_there_is_no_terminal(make_verdict: MakeVerdict) -> None:
    reason = "connection lost\nafter " + "a very long time " * 8

    header, row, *_ = lines(make_verdict("64b-" + "long-" * 30, Outcome.FAILED, reason=reason))

    assert "Test Frame Metric Trend [Mpps] Runs Long-term change Verdict Reason" == " ".join(header.split())
    assert "long-long" in row
    assert "failed" in row
    assert "connection lost after a very long time" in row
    assert "\x1b" not in row


def test_numbers_end_under_each_other(make_verdict: MakeVerdict) -> None:
    _, first, second, *_ = lines(make_verdict("a", trend=12.5e6), make_verdict("b", trend=1.5e6))

    assert first.index("12.500") + 6 == second.index("1.500") + 5


def test_sentence_comes_last(make_verdict: MakeVerdict) -> None:
    assert "1 regression of 1 test" == lines(make_verdict())[-1]
    assert ["No test was analysed"] == lines()


@pytest.mark.parametrize("width", [40, 60, 79, 80, 160])
def test_terminal_is_not_overrun(
    make_verdict: MakeVerdict, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    verdict = make_verdict("64b-1c-ethip4-ip4base-acl60-mrr", reason="word " * 40)

    shown = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines(verdict, stream=Terminal())]

    assert max(map(len, shown)) <= width
    assert 40 == sum(line.count("word") for line in shown)


@pytest.mark.parametrize("width", [40, 60, 79])
def test_narrow_terminal_shows_whole_names_and_verdicts(
    make_verdict: MakeVerdict, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    names = ["64b-1c-ethip4-ip4base-mrr", "64b-1c-ethip4-ip4base-acl60-mrr"]
    outcomes = [Outcome.REGRESSION, Outcome.NOT_VALID]

    shown = "\n".join(lines(*map(make_verdict, names, outcomes), stream=Terminal()))

    assert "\x1b[1;31mregression" in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert {*names, "regression", "not", "valid"} <= set(plain.split())


def test_terminal_has_colours(make_verdict: MakeVerdict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    assert "\x1b[1;31mregression" in "".join(lines(make_verdict(), stream=Terminal()))


def test_hostile_name_gives_no_orders(make_verdict: MakeVerdict) -> None:
    (row,) = lines(make_verdict("[bold]x[/] \x1b]0;title\x07\x1b[2J"))[1:2]

    assert "[bold]x[/] " in row
    assert not {"\x1b", "\x07"} & set(row)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\u2028", "\x85"])
def test_name_cannot_pass_for_another_row(make_verdict: MakeVerdict, end: str) -> None:
    shown = lines(make_verdict(f"slow{end}fast  64B  MRR  normal", reason=f"fell{end}All tests pass"))

    assert ["slow", "1"] == [
        line.split()[0].split("\N{REPLACEMENT CHARACTER}")[0] for line in shown[1:] if line
    ]


def test_encoding_without_the_character_is_no_error(make_verdict: MakeVerdict) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")

    report.terminal_table([make_verdict("grün")], stream=stream)

    stream.seek(0)
    assert "gr?n" in stream.read()
