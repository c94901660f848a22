"""Keywords that open a testbed, start its device and choose the traffic."""

from __future__ import annotations

import contextlib
import platform

from robot.api import SkipExecution, logger
from robot.api.deco import keyword, library

import perftrend
from perftrend.errors import TestbedError
from perftrend.measure import lock, specification
from perftrend.measure.testbed import Testbed
from perftrend.model import NOT_SUPPORTED
from perftrend.settings import Settings


@library(scope="GLOBAL", version=perftrend.__version__)
class TestbedKeywords:
    """Opens the testbed that the settings name, and starts devices and traffic on it."""

    # pytest would otherwise collect a class of this name as tests.
    __test__ = False

    def __init__(self) -> None:
        self.settings = Settings()
        self._open = contextlib.ExitStack()
        self._testbed: Testbed | None = None

    @property
    def testbed(self) -> Testbed:
        """The testbed that is open. :raises TestbedError: if no testbed is open."""
        if self._testbed is None:
            raise TestbedError("no testbed is open; add Open Testbed to the suite's set-up")
        return self._testbed

    @keyword
    def open_testbed(self) -> None:
        """Open the testbed of the settings exclusively: a second job waits until this one has closed it."""
        settings = self.settings = Settings.load()
        spec = specification.load(settings.testbed, settings.testbeds)
        owner = f"a Robot Framework run on {platform.node()}"
        with contextlib.ExitStack() as opening:
            place = opening.enter_context(
                lock.hold(
                    spec.lock,
                    capacity=spec.places,
                    wait_s=settings.wait_s,
                    owner=owner,
                    report=logger.console,
                )
            )
            self._testbed = opening.enter_context(
                Testbed(
                    spec,
                    attempts=settings.trial.attempts,
                    device_options=settings.device_options,
                    instance=place.instance,
                    owner=owner,
                    wait_s=settings.wait_s,
                )
            )
            self._open = opening.pop_all()

    @keyword
    def close_testbed(self) -> None:
        """Remove the whole set-up; without an open testbed nothing happens."""
        self._testbed = None
        self._open.close()

    @keyword
    def start_device(self, **options: str) -> None:
        """Start the device afresh with the options given, such as ``acl_rules=20``.

        A test that the device cannot run is skipped.
        """
        skip(self.testbed.lacks(options))
        self.testbed.start_device(options)

    @keyword
    def stop_device(self) -> None:
        """Stop the device."""
        self.testbed.device.stop()

    @keyword
    def start_traffic(self, frame: str) -> None:
        """Choose the frame size and determine the highest rate for it.

        A length such as ``64B``, ``IMIX``, or a pattern such as ``64x7+570x4+1518x1``. A test with
        frames that the generator cannot send is skipped.
        """
        skip(self.testbed.lacks_traffic(frame))
        self.testbed.use(frame)
        logger.info(f"highest rate {self.testbed.maximum_pps:.0f} pps, link {self.testbed.link_pps:.0f} pps")


def skip(reason: str) -> None:
    """Skip the test if there is a reason why the testbed cannot run it."""
    if reason:
        raise SkipExecution(f"{NOT_SUPPORTED}{reason}")
