"""Archived outputs: reading them, and entering them into the store."""

from perftrend.archive.ingestion import OutputIngestion, ingest, store_pending
from perftrend.archive.reader import Output, Unknown, read_output
from perftrend.archive.results import of_test

__all__ = [
    "Output",
    "OutputIngestion",
    "Unknown",
    "ingest",
    "of_test",
    "read_output",
    "store_pending",
]
