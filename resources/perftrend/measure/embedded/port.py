"""Interfaces of ports: the generator's side sends and counts, the device's side forwards."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from perftrend.measure.embedded.mmsg import Messages


class GeneratorPort(ABC):
    """A port of the traffic generator: it sends prepared frames and counts those that return."""

    @abstractmethod
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        """Store the frames, shape (count, bytes), that :meth:`send` refers to by number."""

    @abstractmethod
    def send(self, start: int, count: int) -> int:
        """Send prepared frames, each exactly once, and return how many the next queue refused."""

    @abstractmethod
    def count_received(self) -> int:
        """Return the number of frames received since the port was opened, by the kernel's count."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


class DevicePort(ABC):
    """A port of the device: received frames are in ``buffer`` and are forwarded from there."""

    buffer: NDArray[np.uint8]
    """Room for frames, shape (slots, bytes)."""
    offset: int
    """Offset of a frame in its row: two more than a multiple of four, so that the IPv4 header is aligned."""

    @abstractmethod
    def receive(self, limit: int) -> tuple[int, int]:
        """Return the first row and the number of the waiting frames, at most ``limit``."""

    @abstractmethod
    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return the length of each of these frames, in bytes."""

    @abstractmethod
    def release(self, start: int, count: int) -> None:
        """Return the rows of these frames to the kernel."""

    @abstractmethod
    def messages_from(self, source: DevicePort) -> Messages:
        """Prepare messages that send the frames in another port's buffer through this port."""

    @abstractmethod
    def send(self, messages: Messages, start: int, count: int) -> int:
        """Send frames through this port and return how many the next queue refused."""

    @property
    @abstractmethod
    def sockets(self) -> list[socket.socket]:
        """The sockets to poll while no frame is waiting."""

    @abstractmethod
    def count_dropped(self) -> int:
        """Return the number of frames that were lost because the port's queue was full."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""
