"""Reports of a bisection: the console's text, the message in Gerrit, JSON and a page."""

from perftrend.report.bisection.console import console, step
from perftrend.report.bisection.contents import Named, Report, Subject
from perftrend.report.bisection.document import document
from perftrend.report.bisection.gerrit import accusation, message
from perftrend.report.bisection.page import files, write
from perftrend.report.bisection.words import sentence

__all__ = [
    "Named",
    "Report",
    "Subject",
    "accusation",
    "console",
    "document",
    "files",
    "message",
    "sentence",
    "step",
    "write",
]
