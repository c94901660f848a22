"""Reports of a per-patch test: the message in Gerrit, the console's text, JSON and a page."""

from perftrend.report.perftest.page import console, document, files, message, write
from perftrend.report.perftest.texts import PerftestReport, PerftestSubject, sentence

__all__ = [
    "PerftestReport",
    "PerftestSubject",
    "console",
    "document",
    "files",
    "message",
    "sentence",
    "write",
]
