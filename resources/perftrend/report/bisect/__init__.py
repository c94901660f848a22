"""Reports of a bisection: the console's text, the message in Gerrit, JSON and a page."""

from perftrend.report.bisect.messages import console, culprit_message, message, show_step, step
from perftrend.report.bisect.page import document, files, write
from perftrend.report.bisect.texts import BisectReport, BisectSubject, NamedCommit, sentence

__all__ = [
    "BisectReport",
    "BisectSubject",
    "NamedCommit",
    "console",
    "culprit_message",
    "document",
    "files",
    "message",
    "sentence",
    "show_step",
    "step",
    "write",
]
