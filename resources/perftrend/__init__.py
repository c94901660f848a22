"""perftrend: nightly performance measurement of a data plane, change detection, and notification."""

__version__ = "0.1.0"
