"""What every port is: a side of the generator that sends and counts, a side of the device that forwards."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from perftrend.measure.embedded.mmsg import Messages


class GeneratorPort(ABC):
    """One side of the traffic generator: sends prepared frames, counts what comes back."""

    @abstractmethod
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        """Take the frames, shape (count, room), that :meth:`send` then refers to by number."""

    @abstractmethod
    def send(self, start: int, count: int) -> int:
        """Send prepared frames, each exactly once; returns how many the next queue refused."""

    @abstractmethod
    def received(self) -> int:
        """Return how many frames have come back since the port was opened, by the kernel's count."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""


class DevicePort(ABC):
    """One side of the device: frames lie in ``buffer``, and are sent on from there."""

    buffer: NDArray[np.uint8]
    """Room for frames, shape (slots, bytes)."""
    offset: int
    """Where in its row a frame begins: two beyond a multiple of four, so that IPv4 is aligned."""

    @abstractmethod
    def take(self, limit: int) -> tuple[int, int]:
        """Return the first row and the number of the frames that wait, at most ``limit``."""

    @abstractmethod
    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return how many bytes each of the frames taken has."""

    @abstractmethod
    def release(self, start: int, count: int) -> None:
        """Give the rows of the frames taken back to the kernel."""

    @abstractmethod
    def messages_from(self, source: DevicePort) -> Messages:
        """Prepare sending the frames that lie in another port's buffer out of this port."""

    @abstractmethod
    def send(self, messages: Messages, start: int, count: int) -> int:
        """Send frames out of this port; returns how many the next queue refused."""

    @property
    @abstractmethod
    def sockets(self) -> list[socket.socket]:
        """What to wait on when no frame waits."""

    @abstractmethod
    def dropped(self) -> int:
        """Return how many frames were lost because the port's queue was full."""

    @abstractmethod
    def close(self) -> None:
        """Give everything back."""
