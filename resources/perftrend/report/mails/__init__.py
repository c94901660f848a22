"""Mails about a run, for people who do not read its report.

Four kinds: tests without a valid result (``failed``), a job without any (``failed-job``), and the
changes that no earlier mail reported, ``regressions`` and ``progressions``. They are written as files,
which Jenkins sends, or sent from here: each recipient gets one mail with everything that concerns them.

Source: "Trend Analysis", sections Trend Compliance and Common Patterns.
"""

from perftrend.report.mails.causes import reportable
from perftrend.report.mails.content import Links
from perftrend.report.mails.delivery import NAMES, send, send_failed_job, write, write_failed_job
from perftrend.report.mails.record import FILES, MailRecord, PendingRuns

__all__ = [
    "FILES",
    "NAMES",
    "Links",
    "MailRecord",
    "PendingRuns",
    "reportable",
    "send",
    "send_failed_job",
    "write",
    "write_failed_job",
]
