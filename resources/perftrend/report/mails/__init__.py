"""Mails: what people are told of a run without looking at its report.

Four kinds: tests without a valid result (``failed``), a job without any (``failed-job``), and the
changes that no earlier mail told, ``regressions`` and ``progressions``. They are written as files,
which Jenkins sends, or sent here, to each recipient one mail with what concerns him.

Source: "Trend Analysis", sections Trend Compliance and Common Patterns.
"""

from perftrend.report.mails.content import Links
from perftrend.report.mails.files import NAMES, write, write_failed_job
from perftrend.report.mails.record import FILES, Pending, Record
from perftrend.report.mails.reportable import reportable
from perftrend.report.mails.sending import send, send_failed_job

__all__ = [
    "FILES",
    "NAMES",
    "Links",
    "Pending",
    "Record",
    "reportable",
    "send",
    "send_failed_job",
    "write",
    "write_failed_job",
]
