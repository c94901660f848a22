"""The BPF program that is shipped is the one that its source describes."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from perftrend.measure.xdp.generator import PACER
from perftrend.measure.xdp.program import (
    CHECKSUMS,
    COMPILER,
    INSTRUCTIONS,
    checksums,
    compile_program,
    read_instructions,
)


def test_instructions_were_compiled_after_the_last_change_of_the_source() -> None:
    """If this fails: ``python -m perftrend.measure.xdp.program``."""
    assert CHECKSUMS.read_text() == checksums()


@pytest.mark.measure
def test_shipped_instructions_are_those_of_the_source(require: Callable[[object, str], None]) -> None:
    require(shutil.which(COMPILER), f"needs {COMPILER} (Debian 12: apt-get install {COMPILER})")

    assert INSTRUCTIONS.read_bytes() == compile_program()


def test_layout_is_that_of_the_source() -> None:
    """The source asserts these sizes."""
    frames = 4 * 24
    offset_of_frames = 320

    assert offset_of_frames == PACER.fields["frame"][1]  # type: ignore[index]
    assert offset_of_frames + frames * 144 == PACER.itemsize


def test_file_without_a_program_is_refused() -> None:
    with pytest.raises(ValueError, match="unpack"):
        read_instructions(bytes(64))
