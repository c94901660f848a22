"""Lines of set-ups are found wherever the pieces of their text end."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.archive import Output, source
from perftrend.archive.result_records import LogLines

TEXT = (
    b"<kw><msg>x\nVPP version: 24.02-rc0~123-gabcdef012~b45\r\n</msg><msg>DPDK version: DPDK 23.11.0</msg>"
    b"<msg>TRex version: v3.03\ntestbed: 2n-clx\n</msg><msg>VPP version: 1.0 of another node</msg></kw>"
)
VERSIONS = {
    "vpp": "24.02-rc0~123-gabcdef012~b45",
    "dpdk": "23.11.0",
    "trex": "v3.03",
    "device": "24.02-rc0~123-gabcdef012~b45",
    "generator": "v3.03",
}


def found(*pieces: bytes) -> LogLines:
    lines = LogLines()
    for piece in pieces:
        lines.search(piece)
    lines.end()
    return lines


@given(st.lists(st.integers(0, len(TEXT))).map(sorted))
def test_lines_are_found_wherever_pieces_end(ends: list[int]) -> None:
    lines = found(*(TEXT[start:end] for start, end in zip([0, *ends], [*ends, len(TEXT)], strict=True)))

    assert VERSIONS == lines.versions
    assert "2n-clx" == lines.testbed


@pytest.mark.parametrize(
    "text",
    [
        b"<arg>VPP version: ${version}</arg>",
        b"<msg>the VPP version: 24.02</msg>",
        b"<msg>VPP version: unknown</msg>",
        b"<msg>VPP version: 24.02",
        b"<msg>my testbed: 2n-clx</msg>",
    ],
)
def test_what_only_resembles_a_line_tells_nothing(text: bytes) -> None:
    lines = found(text)

    assert {} == lines.versions
    assert "" == lines.testbed


def test_dpdk_is_the_device_where_there_is_no_other() -> None:
    assert {"dpdk": "23.11", "device": "23.11"} == found(b'"message":"a\\nDPDK version: 23.11\\nb"').versions


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 18])
def test_lines_of_set_ups_alone_count(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", chunk)
    line = "<msg>VPP version: {}</msg>"
    output = Output(
        io.BytesIO(
            '<robot generator="Robot 3"><suite name="R"><test name="t">'
            f'<kw name="a">{line.format("1.0")}</kw>'
            f'<kw name="b" type="setup"><kw name="c">{line.format("2.0")}</kw></kw>'
            '<status status="PASS">NDR_LOWER: 1.0 pps</status></test>'
            '<metadata><item name="DPDK version">3.0</item></metadata></suite></robot>'.encode()
        )
    )
    list(output)

    assert {"vpp": "2.0", "device": "2.0", "dpdk": "3.0"} == output.versions


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ('{"dut: kernel": "6.1"}', {"dut: kernel": "6.1"}),
        ('{"dut: kernel": 6}', {}),
        ('{"dut: kernel": "' + "6" * 201 + '"}', {}),
        ("Debian 12", {}),
        ("[]", {}),
        ("", {}),
    ],
)
def test_environment_comes_from_the_metadata(text: str, environment: dict[str, str]) -> None:
    output = Output(
        io.BytesIO(
            b'<robot generator="Robot 7"><suite name="R"><test name="t">'
            b'<status status="PASS">NDR_LOWER: 1.0 pps</status></test>'
            b'<metadata><item name="Environment">' + text.encode() + b"</item></metadata></suite></robot>"
        )
    )
    list(output)

    assert environment == output.environment


def test_testbed_of_a_set_up_stands_in_where_nobody_else_names_one() -> None:
    text = (
        b'<robot><suite name="R"><kw name="s" type="SETUP"><msg>Testbed: 2n-clx\n</msg></kw>'
        b'<test name="t"><status status="PASS">NDR_LOWER: 1.0 pps</status></test></suite></robot>'
    )

    assert ["2n-clx"] == [result.key["testbed"] for result in Output(io.BytesIO(text))]
    assert ["mine"] == [result.key["testbed"] for result in Output(io.BytesIO(text), testbed="mine")]
