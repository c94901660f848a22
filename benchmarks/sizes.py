"""Sizes on the command line."""

from __future__ import annotations

import argparse
import re


def traces_and_commits(text: str) -> tuple[int, int]:
    """Read a size such as ``20000x1000``.

    :raises argparse.ArgumentTypeError: for anything else.
    """
    found = re.fullmatch(r"([1-9]\d{2,6})x([1-9]\d{1,4})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: give traces and commits, such as 20000x1000")
    return int(found[1]), int(found[2])
