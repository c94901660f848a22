"""What a job prints: its verdict, texts and warnings."""

from __future__ import annotations

import sys


def print_verdict(verdict: str) -> None:
    """Print the line that Jenkins shows as the description of the build."""
    print_text(f"perftrend verdict: {verdict}")


def print_text(text: str) -> None:
    """Print a text; characters that the encoding cannot represent become question marks."""
    encoding = sys.stdout.encoding or "utf-8"
    print(text.encode(encoding, "replace").decode(encoding), flush=True)


def warn(message: str) -> None:
    """Print a warning on standard error."""
    print(f"perftrend: {message}", file=sys.stderr, flush=True)
