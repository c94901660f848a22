"""Many messages per system call: ``sendmmsg`` and ``recvmmsg`` over arrays of frames.

The kernel's ``struct mmsghdr`` and ``struct iovec`` are laid out as numpy records, so that a
burst is prepared by array operations and passed to the kernel without copying.
"""

from __future__ import annotations

import ctypes
import errno
import os

import numpy as np
from numpy.typing import NDArray

_MMSGHDR = np.dtype(
    [
        ("name", "u8"),
        ("name_length", "u4"),
        ("_pad0", "u4"),
        ("iovec", "u8"),
        ("iovec_length", "u8"),
        ("control", "u8"),
        ("control_length", "u8"),
        ("flags", "i4"),
        ("_pad1", "u4"),
        ("length", "u4"),
        ("_pad2", "u4"),
    ]
)
_IOVEC = np.dtype([("base", "u8"), ("length", "u8")])
_MSG_DONTWAIT = 0x40

_libc = ctypes.CDLL(None, use_errno=True)
_sendmmsg = _libc.sendmmsg
_recvmmsg = _libc.recvmmsg
_sendmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
_recvmmsg.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.c_int, ctypes.c_void_p]


class Messages:
    """A vector of messages, each of which is one frame in a shared buffer.

    :param addresses: start address of each frame in memory, shape (n,).
    :param lengths: length of each frame, or of the space for it, in bytes, shape (n,).
    :param destinations: ``sockaddr`` of each message, shape (n, bytes), or None for a bound socket.
    """

    def __init__(
        self,
        addresses: NDArray[np.uint64],
        lengths: NDArray[np.uint64] | int,
        destinations: NDArray[np.uint8] | None = None,
    ) -> None:
        size = len(addresses)
        self._iovecs = np.zeros(size, _IOVEC)
        self._iovecs["base"] = addresses
        self._iovecs["length"] = lengths
        self._headers = np.zeros(size, _MMSGHDR)
        self._headers["iovec"] = _addresses(self._iovecs, size, _IOVEC.itemsize)
        self._headers["iovec_length"] = 1
        self._destinations = destinations  # must stay alive: the headers contain its address
        if destinations is not None:
            self._headers["name"] = _addresses(destinations, size, destinations.strides[0])
            self._headers["name_length"] = destinations.shape[1]
        self._first = self._headers.ctypes.data
        self.frame_lengths = self._iovecs["length"]
        """Bytes to send of each frame, shape (n,); write to it before sending."""
        self.received_lengths = self._headers["length"]
        """Bytes received in each frame, shape (n,)."""

    def __len__(self) -> int:
        return len(self._headers)

    def send(self, fd: int, start: int, count: int) -> tuple[int, int]:
        """Send ``count`` frames from ``start`` on, each exactly once.

        :returns: the number of frames handed over, and the number of those that the next queue refused: they
            count as sent and lost, and are not sent again.
        :raises OSError: for errors other than a full queue, a missing receiver or a network that is down.
        """
        done = dropped = 0
        while done < count:
            first = self._first + (start + done) * _MMSGHDR.itemsize
            sent = _sendmmsg(fd, first, count - done, _MSG_DONTWAIT)
            if sent > 0:
                done += sent
                continue
            number = ctypes.get_errno()
            # The queue of the next hop is full and dropped the frame, which counts as sent and lost.
            # A refused connection means that the receiver is gone, which loses the frame as well.
            if number in (errno.ENOBUFS, errno.EAGAIN, errno.ECONNREFUSED, errno.ENETDOWN):
                done += 1
                dropped += 1
            elif number != errno.EINTR:
                raise OSError(number, os.strerror(number))
        return done, dropped

    def receive(self, fd: int, count: int) -> int:
        """Receive up to ``count`` frames without waiting and return their number."""
        received: int = _recvmmsg(fd, self._first, count, _MSG_DONTWAIT, None)
        if received >= 0:
            return received
        number = ctypes.get_errno()
        if number in (errno.EAGAIN, errno.EINTR, errno.ECONNREFUSED):
            return 0
        raise OSError(number, os.strerror(number))


def _addresses(array: NDArray[np.generic], size: int, stride: int) -> NDArray[np.uint64]:
    return np.uint64(array.ctypes.data) + np.arange(size, dtype=np.uint64) * np.uint64(stride)


def frame_addresses(buffer: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the start address of each row of a two-dimensional buffer, shape (rows,)."""
    return _addresses(buffer, buffer.shape[0], buffer.strides[0])
