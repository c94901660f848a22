"""One stub per Jenkins job: ``python -m jobs.NAME``."""
