"""One thin script per Jenkins job: ``python -m jobs.NAME``."""
