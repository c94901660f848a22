"""Archived outputs: reading them, and entering them into the store."""

from perftrend.archive.ingest import Ingested, ingest
from perftrend.archive.pending import store_pending
from perftrend.archive.reading import Output, Unknown, read_output
from perftrend.archive.recorded import RecordedTest
from perftrend.archive.results import of_test

__all__ = [
    "Ingested",
    "Output",
    "RecordedTest",
    "Unknown",
    "ingest",
    "of_test",
    "read_output",
    "store_pending",
]
