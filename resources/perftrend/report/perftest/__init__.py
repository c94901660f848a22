"""Reports of a per-patch test: the message in Gerrit, the console's text, JSON and a page."""

from perftrend.report.perftest.console import console
from perftrend.report.perftest.contents import PerftestReport, PerftestSubject
from perftrend.report.perftest.document import document
from perftrend.report.perftest.gerrit import message
from perftrend.report.perftest.page import files, write
from perftrend.report.perftest.texts import sentence

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
