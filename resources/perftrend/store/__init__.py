"""The store: what was measured, kept in SQLite or in another database."""

from perftrend.store.store import Store

__all__ = ["Store"]
