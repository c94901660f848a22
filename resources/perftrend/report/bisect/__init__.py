"""Reports of a bisection: the console's text, the message in Gerrit, JSON and a page."""

from perftrend.report.bisect.console import console, show_step, step
from perftrend.report.bisect.contents import BisectReport, BisectSubject, NamedCommit
from perftrend.report.bisect.document import document
from perftrend.report.bisect.gerrit import accusation, message
from perftrend.report.bisect.page import files, write
from perftrend.report.bisect.texts import sentence

__all__ = [
    "BisectReport",
    "BisectSubject",
    "NamedCommit",
    "accusation",
    "console",
    "document",
    "files",
    "message",
    "sentence",
    "show_step",
    "step",
    "write",
]
