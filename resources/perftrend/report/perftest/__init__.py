"""Reports of a per-patch test: the message in Gerrit, the console's text, JSON and a page."""

from perftrend.report.perftest.messages import console, message
from perftrend.report.perftest.page import document, files, write
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
