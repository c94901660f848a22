"""The choice between the two implementations of the search: numpy and compiled.

Importing numba and loading its compiled code takes a process about 0.6 s. After that the search is 20 to 100
times as fast as in numpy, which takes 0.1 to 0.2 ms per value. A process therefore begins with numpy, and
switches to the compiled search for good at the first series of ``LONG`` values, or when it has partitioned
``MANY`` values: by then numpy has run about as long as loading does. A job that evaluates four tests does
not pay for loading, one that evaluates thousands hardly pays for numpy, and callers need not choose. Both
implementations return the same result.

Source: Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988: to buy when the rent paid
has reached the price never costs more than twice the minimum.
"""

from __future__ import annotations

import functools
import sys

from perftrend import errors

ENGINES = ("fastest", "compiled", "numpy")
LONG = 1000
"""Values of one series."""
MANY = 5000
"""Values of all series so far."""


@functools.cache
def is_compiled() -> bool:
    """Return whether the compiled search can be loaded, and load it."""
    try:
        from perftrend.analysis.mdl import kernel  # noqa: F401, PLC0415 - numba takes long to import
    except (ImportError, OSError):
        # llvmlite raises OSError if its library cannot be loaded.
        return False
    return True


class EngineChoice:
    """The choice of the engine for each series, by the number of values so far."""

    def __init__(self) -> None:
        self._values = 0

    def choose(self, engine: str, *, values: int) -> str:
        """Return ``compiled`` or ``numpy``.

        :param engine: one of these, or ``fastest`` to choose by the number of values.
        :param values: number of values of the series.
        :raises SettingsError: if the engine does not exist, or numba cannot be imported.
        """
        if engine not in ENGINES:
            hint = errors.nearest(engine, ENGINES)
            raise errors.SettingsError(f"partition: no engine is named {engine!r}{hint}")
        if engine == "fastest":
            self._values += values
            if not (values >= LONG or self._values >= MANY or _is_loaded()):
                return "numpy"
        if engine != "numpy" and is_compiled():
            return "compiled"
        if engine == "compiled":
            raise errors.SettingsError(
                "partition: engine 'compiled' needs numba, which cannot be imported; leave the engine out"
            )
        return "numpy"


def _is_loaded() -> bool:
    return "perftrend.analysis.mdl.kernel" in sys.modules


OF_PROCESS = EngineChoice()
"""A process pays for loading once, so the values of all its series are counted together."""
