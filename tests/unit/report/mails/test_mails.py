"""The mails as files: their contents, their folder, and names of tests that try to inject something."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len

from perftrend.model import Better, Change, Direction, Outcome, Run, TraceKey, Verdict
from perftrend.report import mails
from perftrend.settings import Settings
from perftrend.trigger import Trigger, parse

MakeVerdict = Callable[..., Verdict]

GOLDEN = Path(__file__).parent / "golden"
LINKS = mails.Links(
    report="https://ci.example.org/job/analysis/6/artifact/report/index.html",
    build="https://ci.example.org/job/analysis/6/",
    settings=Settings.load(
        environment={},
        overrides={
            "dashboard.url": "https://perf.example.org",
            "gerrit.url": "https://review.example.org",
        },
    ),
)
HOSTILE = (
    '<img src=x onerror=alert(1)>\r\nBcc: all@example.org\n\nbody ${ENV,var="TOKEN"} $BUILD_LOG '
    "\x1b[31m\x00\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe\u2028next \ud800 " + "x" * 5000
)


def certain(direction: Direction, before: float, after: float, pattern: str = "ordinary") -> Change:
    return Change(
        3,
        before,
        after,
        direction,
        confidence=0.9987,
        effect_size=-9.0,
        last_before=2,
        first_after=3,
        pattern=pattern,
    )


def of_suite(verdict: Verdict, suite: str) -> Verdict:
    key = TraceKey.of(**{**verdict.series.key.as_dict(), "suite": suite})
    return replace(verdict, series=replace(verdict.series, key=key))


def lower_is_better(verdict: Verdict) -> Verdict:
    return replace(verdict, series=replace(verdict.series, better=Better.LOWER))


@pytest.fixture
def verdicts(make_verdict: MakeVerdict) -> list[Verdict]:
    fell = "20.0 % below the trend of the 3 runs before (10 Mpps)"
    x710 = "Tests.Ip4.2N1L-10Ge2P1X710-Ethip4-Ip4Base-Mrr"
    fallen = make_verdict(
        "64b-1c-ethip4-ip4base-mrr",
        reason=f"{fell}, found late: since trending/4",
        changes=(certain(Direction.REGRESSION, 10e6, 8e6),),
        owners=("ip4 team", "Ada"),
        mail=("ip4@example.org",),
    )
    once = make_verdict(
        "10ge2p1x710-64b-1c-eth-l2bdbasemaclrn-eth-2memif-1dcr-a-name-longer-than-its-column-mrr",
        reason=fell,
        long_term_change=-0.012,
        trend=12.3456e6,
        changes=(certain(Direction.REGRESSION, 10e6, 8e6, "reverted"),),
    )
    connections = make_verdict(
        "64b-tcp-cps-ndr",
        metric="ndr",
        unit="CPS",
        trend=512345.0,
        reason="4.0 % below",
        frame="IMIX",
        changes=(certain(Direction.REGRESSION, 533692.0, 512345.0),),
    )
    lost = lower_is_better(
        make_verdict(
            "64b-reconf",
            metric="loss",
            unit="s",
            trend=0.000123,
            long_term_change=0.5,
            reason="50.0 % above the trend of the 3 runs before (8.2e-05 s)",
            changes=(certain(Direction.REGRESSION, 8.2e-5, 1.23e-4),),
        )
    )
    risen = make_verdict(
        "1518b-1c-ethip4-ip4base-mrr",
        Outcome.PROGRESSION,
        reason="10.0 % above the trend of the 3 runs before (8 Mpps)",
        frame="1518B",
        long_term_change=0.1,
        changes=(certain(Direction.PROGRESSION, 8e6, 8.8e6),),
        mail=("l2@example.org",),
    )
    failed = [
        make_verdict(
            f"{size}b-1c-acl-mrr", Outcome.FAILED, reason=f"Setup failed:\nno carrier on eth{size % 7}"
        )
        for size in (64, 128, 256, 512, 1024)
    ]
    return [
        of_suite(fallen, x710),
        replace(once, runs=1),
        connections,
        lost,
        risen,
        *failed,
        make_verdict("64b-nat-mrr", Outcome.NOT_VALID, reason="the generator sent 91.2 % of what was asked"),
        make_verdict("64b-normal-mrr", Outcome.NORMAL),
    ]


def content(files: tuple[Path, ...]) -> dict[str, str]:
    return {file.name: file.read_bytes().decode() for file in files}


@pytest.mark.parametrize("name", ["failed", "regressions", "progressions"])
@pytest.mark.parametrize("kind", ["subject", "txt", "html"])
def test_mail_reads_as_its_golden_file(
    tmp_path: Path, verdicts: list[Verdict], run: Run, name: str, kind: str
) -> None:
    written = content(mails.write(tmp_path, verdicts, run=run, links=LINKS, notices=["measured on 2n-clx"]))

    assert (GOLDEN / f"{name}.{kind}").read_bytes().decode() == written[f"{name}.{kind}"]


@pytest.mark.parametrize("kind", ["subject", "txt", "html"])
def test_mail_of_a_failed_job_reads_as_its_golden_file(tmp_path: Path, kind: str) -> None:
    written = content(
        mails.write_failed_job(
            tmp_path,
            job="trending",
            build=6,
            testbed="2n-clx",
            reason="perftrend: testbed 2n-clx: interface eth1 has no carrier",
            links=LINKS,
        )
    )

    assert (GOLDEN / f"failed-job.{kind}").read_bytes().decode() == written[f"failed-job.{kind}"]


def test_mail_of_a_failed_job_without_a_testbed_names_none(tmp_path: Path) -> None:
    written = content(
        mails.write_failed_job(tmp_path, job="bisect", build=6, testbed="", reason="no numbers", links=LINKS)
    )

    assert "No results: bisect/6" == written["failed-job.subject"].strip()
    assert "The job bisect/6 ended without results:" in written["failed-job.txt"]
    assert "The job bisect/6 ended without results:" in written["failed-job.html"]


def test_mail_is_written_only_where_there_is_something_to_say(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    mails.write(tmp_path, [make_verdict()], run=run)

    assert ["regressions.html", "regressions.subject", "regressions.txt"] == sorted(
        file.name for file in (tmp_path / "mails").iterdir()
    )


def test_mails_of_an_earlier_run_do_not_stay(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    mails.write_failed_job(tmp_path, job="trending", build=5, testbed="2n-clx", reason="killed")
    mails.write(tmp_path, [make_verdict()], run=run)

    assert () == mails.write(tmp_path, [make_verdict(outcome=Outcome.NORMAL)], run=run)
    assert [] == list((tmp_path / "mails").iterdir())


def test_rerun_writes_the_same(tmp_path: Path, verdicts: list[Verdict], run: Run) -> None:
    first = content(mails.write(tmp_path, verdicts, run=run))

    assert first == content(mails.write(tmp_path, verdicts[::-1], run=run))


def test_foreign_file_is_left_alone(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    theirs = tmp_path / "mails" / "notes.txt"
    theirs.parent.mkdir()
    theirs.write_text("mine")

    mails.write(tmp_path, [make_verdict()], run=run)

    assert "mine" == theirs.read_text()


def test_mail_that_cannot_be_written_is_not_there_in_part(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    """Jenkins sends what has its HTML: that is the last file."""
    mails.write(tmp_path, [make_verdict()], run=run)
    (tmp_path / "mails" / ".regressions.txt.unfinished").mkdir()

    with pytest.raises(IsADirectoryError):
        mails.write(tmp_path, [make_verdict()], run=run)
    assert not (tmp_path / "mails" / "regressions.html").exists()


def test_run_without_any_result_is_a_failed_job(tmp_path: Path, missing: Verdict, run: Run) -> None:
    written = content(mails.write(tmp_path, [missing], run=run))

    assert {"failed-job.subject", "failed-job.txt", "failed-job.html"} == set(written)
    assert "none of 1 expected result is in the run" in written["failed-job.txt"]


def test_simulated_run_says_so_first(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    written = content(mails.write(tmp_path, [make_verdict()], run=replace(run, simulated=True)))

    assert "SIMULATED: 1 regression on 2n-clx: trending/6" == written["regressions.subject"]
    assert "no packet was sent" in written["regressions.txt"]
    assert "SIMULATED</strong>" in written["regressions.html"]


def test_hundreds_of_changes_are_cut_with_the_smallest_left_out(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    many = [make_verdict(f"{i}b-mrr", long_term_change=-0.001 * i) for i in range(1, 151)]

    written = content(mails.write(tmp_path, many, run=run))["regressions.txt"]

    assert "150 regressions that no earlier mail reported" in written
    assert "110 with a smaller long-term change are left out" in written
    assert "\n111b-mrr " in written
    assert "\n110b-mrr " not in written


def test_text_fits_its_width(tmp_path: Path, verdicts: list[Verdict], run: Run) -> None:
    for name, text in content(mails.write(tmp_path, verdicts, run=run, links=LINKS)).items():
        wide = [
            each
            for each in text.split("\n")
            if cell_len(each) > 100 and " " in each.strip() and "://" not in each
        ]
        assert name.endswith(".html") or not wide


def test_change_has_its_commits_and_its_bisection(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    verdict = make_verdict("64b-1c-ethip4-ip4base-mrr", changes=(certain(Direction.REGRESSION, 10e6, 8e6),))
    written = content(mails.write(tmp_path, [verdict], run=run, links=LINKS))

    for text in (written["regressions.txt"], written["regressions.html"]):
        assert f"between run 3 ({3:040x}"[:27] in text
        (line,) = re.findall("bisecttest-.*?(?=<|$)", text, re.MULTILINE)
        (requested,) = parse(line)
        assert isinstance(requested, Trigger)
        assert (f"{3:040x}", ("mrrAND64bAND1cANDethip4-ip4base",)) == (requested.old, requested.include)
        trace = verdict.series.key.hash
        for url in (
            f"https://perf.example.org/traces/{trace}/item",
            f"https://review.example.org/q/{4:040x}",
        ):
            assert url in text
    assert [
        "bisect", "--testbed", "2n-clx", "--old", f"{3:040x}", "--new", f"{4:040x}",
        "--tags", "mrrAND64bAND1cANDethip4-ip4base",
    ] == words_of_command(written["regressions.txt"])[1:]  # fmt: skip


def words_of_command(text: str) -> list[str]:
    """Return the words that a shell reads from the command in a mail."""
    command = re.search(r"or run this command:\n((?:.*\\\n)*.*)\n", text)
    assert command is not None
    assert max(map(len, command[1].split("\n"))) <= 100
    script = f"printf '%s\\n' {command[1].strip()}"
    return subprocess.run(
        ["sh", "-c", script], check=True, text=True, capture_output=True
    ).stdout.splitlines()


def test_long_command_is_broken_between_its_words(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    test = f"64b-1c-{'x' * 60}-mrr"
    verdict = make_verdict(test, changes=(certain(Direction.REGRESSION, 10e6, 8e6),))

    words = words_of_command(
        content(mails.write(tmp_path, [verdict], run=run, links=LINKS))["regressions.txt"]
    )

    assert ["--tags", f"mrrAND64bAND1cAND{'x' * 60}"] == words[-2:]


def test_testbed_that_no_comment_can_name_is_not_bisected(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    verdict = make_verdict(changes=(certain(Direction.REGRESSION, 10e6, 8e6),))
    runs = tuple(replace(each, testbed="a --new $(reboot)") for each in verdict.series.runs)
    hostile = replace(verdict, series=replace(verdict.series, runs=runs))

    written = content(mails.write(tmp_path, [hostile], run=run, links=LINKS))

    assert "reboot" not in written["regressions.txt"]


def test_progression_is_not_called_a_regression(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    verdict = make_verdict(
        outcome=Outcome.PROGRESSION,
        reason="256.9 % above the trend",
        long_term_change=2.569,
        changes=(certain(Direction.PROGRESSION, 8e6, 28.552e6),),
    )
    written = content(mails.write(tmp_path, [verdict], run=run, links=LINKS))

    assert {"progressions.subject", "progressions.txt", "progressions.html"} == set(written)
    for text in written.values():
        assert "regression" not in text.lower()
    assert 'color:#137541">+256.9</td>' in written["progressions.html"]


@pytest.mark.parametrize(
    "case",
    [
        (-0.2, Better.HIGHER, "#c62f2b", "-20.0"),
        (0.2, Better.HIGHER, "#137541", "+20.0"),
        (0.2, Better.LOWER, "#c62f2b", "+20.0"),
        (0.0001, Better.HIGHER, "#5a646e", "unchanged"),
    ],
)
def test_long_term_change_has_the_colour_of_its_direction(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run, case: tuple[float, Better, str, str]
) -> None:
    change, better, colour, text = case
    verdict = make_verdict(long_term_change=change)
    verdict = replace(verdict, series=replace(verdict.series, better=better))

    written = content(mails.write(tmp_path, [verdict], run=run))

    assert f'color:{colour}">{text}</td>' in written["regressions.html"]


def test_single_run_of_a_group_may_be_an_accident(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    written = content(mails.write(tmp_path, [replace(make_verdict(), runs=1)], run=run))

    assert "one run so far, which may be an outlier" in written["regressions.txt"]
    assert "one run so far, which may be an outlier" in written["regressions.html"]


def test_slow_drift_is_called_one(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    drift = replace(certain(Direction.REGRESSION, 10e6, 8e6), drift=True)

    written = content(mails.write(tmp_path, [make_verdict(changes=(drift,))], run=run))

    assert "ordinary, a slow drift, confidence 99.87 %" in written["regressions.txt"]


def test_change_is_the_newest_in_its_direction(tmp_path: Path, make_verdict: MakeVerdict, run: Run) -> None:
    changes = (
        Change(1, 11e6, 10e6, Direction.REGRESSION),
        Change(3, 10e6, 8e6, Direction.REGRESSION),
        Change(5, 8e6, 9e6, Direction.PROGRESSION),
    )

    written = content(mails.write(tmp_path, [make_verdict(changes=changes)], run=run))

    assert "since run 4" in written["regressions.txt"]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def hostile(verdict: Verdict, run: Run) -> tuple[Verdict, Run]:
    text = HOSTILE
    key = TraceKey.of(test=text, suite=text, frame=text, metric=text, nic=text)
    worst = replace(
        verdict,
        series=replace(verdict.series, key=key, unit=text),
        reason=text,
        owners=(text,),
        changes=(replace(verdict.changes[0], pattern=text),),
    )
    return worst, replace(run, testbed=text, job=text, versions={text: text})


@pytest.mark.parametrize(
    "outcome", [Outcome.REGRESSION, Outcome.PROGRESSION, Outcome.FAILED, Outcome.MISSING]
)
def test_hostile_names_and_messages_stay_text(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run, outcome: Outcome
) -> None:
    direction = Direction.PROGRESSION if outcome is Outcome.PROGRESSION else Direction.REGRESSION
    verdict = make_verdict(outcome=outcome, changes=(Change(3, 10.0, 8.0, direction),))
    worst, where = hostile(verdict, run)
    links = mails.Links(report="javascript:alert(1)", build='https://ci/"><script>\n$X')

    written = content(mails.write(tmp_path, [worst], run=where, links=links, notices=[HOSTILE]))

    assert 3 == len(written)
    for name, text in written.items():
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e]", text)
        assert "$" not in text
        assert name.endswith(".html") or max(map(len, text.split("\n"))) <= 300
        if name.endswith(".subject"):
            assert "\n" not in text
        if name.endswith(".html"):
            tags = Tags(text).found
            assert not {tag for tag, _ in tags} & {"img", "script", "style", "link"}
            assert all((attrs.get("href") or "https:").startswith("https:") for _, attrs in tags)


def test_html_needs_nothing_from_elsewhere(tmp_path: Path, verdicts: list[Verdict], run: Run) -> None:
    """Mail programs drop style sheets and scripts, and ask before they load an image."""
    for name, text in content(mails.write(tmp_path, verdicts, run=run, links=LINKS)).items():
        if name.endswith(".html"):
            tags = {tag for tag, _ in Tags(text).found}
            assert not tags & {"img", "script", "style", "link", "svg", "object"}
            assert "class=" not in text


TAGS = {
    "a",
    "body",
    "br",
    "caption",
    "h1",
    "h2",
    "head",
    "html",
    "li",
    "meta",
    "p",
    "pre",
    "span",
    "strong",
    "table",
    "td",
    "th",
    "title",
    "tr",
    "ul",
}
PROPERTIES = {
    "background",
    "border",
    "border-collapse",
    "border-left",
    "border-radius",
    "border-top",
    "color",
    "display",
    "font-family",
    "font-size",
    "font-weight",
    "line-height",
    "margin",
    "padding",
    "padding-left",
    "text-align",
    "text-decoration",
    "vertical-align",
    "white-space",
    "word-break",
}
"""Gmail, Outlook and Apple Mail apply them inline; they drop what positions or loads something."""


def test_html_has_only_what_mail_programs_apply(tmp_path: Path, verdicts: list[Verdict], run: Run) -> None:
    for name, text in content(mails.write(tmp_path, verdicts, run=run, links=LINKS)).items():
        if name.endswith(".html"):
            found = Tags(text).found
            styles = [attrs.get("style") or "" for _, attrs in found]
            used = {part.partition(":")[0].strip() for style in styles for part in style.split(";") if part}
            assert {tag for tag, _ in found} <= TAGS
            assert used <= PROPERTIES
            assert not re.search(r"url\(|var\(|!important|[{}]", "".join(styles))


def test_mail_of_many_changes_is_short_enough_for_gmail(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    """Gmail cuts off a mail whose HTML is longer than 102 kB."""
    long = "ethip4-ip4base-acl20-and-a-name-as-long-as-such-names-get"
    change = certain(Direction.REGRESSION, 10e6, 8e6)
    many = [make_verdict(f"64b-{cores}c-{long}-mrr", changes=(change,)) for cores in range(120)]

    written = content(mails.write(tmp_path, many, run=run, links=LINKS))

    assert len(written["regressions.html"].encode()) < 102_000
    assert "80 with a smaller long-term change are left out" in written["regressions.html"]


def test_dollar_signs_of_messages_do_not_reach_jenkins(
    tmp_path: Path, make_verdict: MakeVerdict, run: Run
) -> None:
    failed = make_verdict(outcome=Outcome.FAILED, reason="Variable '${rate}' not found.")

    written = content(mails.write(tmp_path, [failed], run=run))

    assert "Variable &#39;&#36;{rate}&#39; not found." in written["failed.html"]
    assert "Variable '\N{FULLWIDTH DOLLAR SIGN}{rate}' not found." in written["failed.txt"]


def test_trace_without_a_value_can_be_told_of(tmp_path: Path, missing: Verdict, run: Run) -> None:
    """A verdict may say regression by a rule that knows no groups and no changes."""
    odd = replace(missing, outcome=Outcome.REGRESSION, trend=np.nan)

    written = content(mails.write(tmp_path, [odd], run=run))

    assert "64b-never" in written["regressions.txt"]
