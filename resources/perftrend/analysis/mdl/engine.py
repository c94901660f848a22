"""Which edition of the search evaluates a series: numpy's or the compiled one.

To import numba and to load what it has compiled takes a process about 0.6 s. From then on the search is 20 to
100 times as fast as in numpy, which takes 0.1 to 0.2 ms for a value. So a process begins with numpy, and
switches to the compiled search for good at the first series of ``LONG`` values, or when it has partitioned
``MANY`` values: numpy has then taken about as long as loading does. A job that evaluates four tests does not
pay for loading, one that evaluates thousands hardly pays for numpy, and callers need not know which of
them they are. Both editions give the same answer.

Source: Karlin, Manasse, Rudolph and Sleator, "Competitive snoopy caching", 1988: who buys when the rent has
cost as much never pays more than twice the least possible.
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
    """Whether the compiled search can be loaded; loads it."""
    try:
        from perftrend.analysis.mdl import kernel  # noqa: F401, PLC0415 - numba takes long to import
    except (ImportError, OSError):
        # llvmlite raises OSError if its library cannot be loaded.
        return False
    return True


class EngineChoice:
    """Chooses the engine of each series by the number of values so far."""

    def __init__(self) -> None:
        self._values = 0

    def choose(self, engine: str, *, values: int) -> str:
        """Return ``compiled`` or ``numpy``.

        :param engine: one of these, or ``fastest`` to choose by the number of values.
        :param values: of the series.
        :raises SettingsError: if there is no such engine, or numba cannot be imported.
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
"""Loading is paid once by a process, so its values are counted together."""
