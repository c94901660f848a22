"""perftrend: measure a data plane every night, find what changed, and say who should know."""

__version__ = "0.1.0"
