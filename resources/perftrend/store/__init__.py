"""The store: runs, results and the data of the dashboard, in SQLite or another database."""

from perftrend.store.store import Store

__all__ = ["Store"]
