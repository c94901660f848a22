"""Ingestion of builds that a signed webhook reports, or that are in a watched folder."""
