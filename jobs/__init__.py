"""One thin script per Jenkins job: ``python -m jobs.NAME``."""

import atexit
import gc

# A job imports several hundred thousand objects, which stay. To look for cycles among them after every 700
# new ones, and to take them apart at its end, would be a third of the time of a job that only starts.
gc.set_threshold(20_000, 10, 10)
atexit.register(gc.freeze)
