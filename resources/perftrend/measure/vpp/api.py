"""A connection to VPP's binary API by its official Python client, vpp-papi.

The client needs the definitions of the messages, ``*.api.json``, of the build of VPP that runs: each message
is known by its name and a checksum of its fields.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from perftrend.errors import TestbedError

_ANSWER_S = 20.0
_LONGEST_MESSAGE = 300
_VISIBLE = re.compile(r"\S")
_ERRORS = {
    -1: "unspecified error",
    -2: "invalid sw_if_index",
    -3: "no such FIB / VRF",
    -6: "no such entry",
    -7: "invalid value",
    -8: "invalid value #2",
    -9: "unimplemented",
    -10: "invalid sw_if_index #2",
    -11: "system call error #1",
    -30: "feature disabled by configuration",
    -31: "invalid registration",
    -55: "invalid VLAN",
    -56: "VLAN subif already exists",
    -57: "invalid source address",
    -58: "invalid destination address",
    -59: "address length mismatch",
    -62: "IPv6 is not enabled",
    -71: "invalid interface",
    -73: "invalid argument",
    -75: "tunnel already exists",
    -76: "invalid decap-next",
    -79: "interface already exists",
    -82: "source and destination are the same",
    -97: "invalid address family",
    -105: "address in use",
    -114: "address found for interface",
    -119: "bridge domain already exists",
    -126: "unsupported",
    -127: "address already present on another interface",
}
"""The errors of the messages that the driver sends; from ``src/vnet/error.h`` of VPP."""


class NoConnectionError(Exception):
    """VPP does not accept connections, or not yet."""


class VppApi:
    """An open connection.

    :param socket: path of the socket on this machine.
    :param definitions: the contents of all ``*.api.json`` files of the build, one after the other.
    :param check: raises a TestbedError with the reason if VPP has ended.
    :raises NoConnectionError: if VPP does not answer.
    """

    def __init__(self, socket: str, definitions: str, check: Callable[[], None]) -> None:
        from vpp_papi import VPPApiClient  # noqa: PLC0415 - an optional package

        _forget_types()
        self._check = check
        try:
            with tempfile.TemporaryDirectory(prefix="perftrend-vpp-") as folder:
                self._client = VPPApiClient(
                    apifiles=_write(definitions, Path(folder)),
                    server_address=socket,
                    async_thread=False,
                    read_timeout=_ANSWER_S,
                )
            self._connect()
        except (AttributeError, LookupError, RuntimeError, ValueError) as error:
            raise TestbedError(
                f"vpp: the *.api.json files are not complete ({error}); install VPP again"
            ) from None

    def _connect(self) -> None:
        try:
            self._client.connect("perftrend")
        except (OSError, TypeError) as error:
            # TypeError: if the other end closes the socket, the client parses the answer that it has not got.
            self._close_socket()
            raise NoConnectionError(str(error)) from None
        except BaseException:
            self._close_socket()
            raise

    def close(self) -> None:
        """Disconnect."""
        try:
            self._client.disconnect()
        except AttributeError:
            # The client sends a message, which it does not have if the definitions are of another build.
            self._close_socket()

    def _close_socket(self) -> None:
        """Close what the client leaves open if it fails."""
        if self._client.transport.socket:
            self._client.transport.socket.close()

    def call(self, message: str, **fields: object) -> dict[str, Any]:
        """Send a message and return the fields of the reply. :raises TestbedError: if VPP refuses it."""
        (reply,) = self._request(message, fields)
        if retval := reply["retval"]:
            reason = _ERRORS.get(retval, "see src/vnet/error.h of VPP")
            raise TestbedError(f"vpp: {message} failed with retval {retval}: {reason}")
        return reply

    def interfaces(self) -> dict[str, dict[str, Any]]:
        """Return the details of VPP's interfaces, by their names."""
        return {each["interface_name"]: each for each in self._request("sw_interface_dump", {})}

    def command(self, text: str, *, timeout_s: float = _ANSWER_S) -> str:
        """Run a command of VPP's command line and return what it printed.

        :raises TestbedError: if VPP refuses it, with VPP's message.
        """
        (reply,) = self._request("cli_inband", {"cmd": text, "_timeout": timeout_s})
        printed: str = reply["reply"]
        if retval := reply["retval"]:
            raise TestbedError(f"vpp: {_short(text)!r}: {_short(printed) or f'retval {retval}'}")
        return printed

    def _request(self, message: str, fields: dict[str, object]) -> list[dict[str, Any]]:
        """Send a message and return the fields of each reply."""
        function = getattr(self._client.api, message, None)
        if function is None:
            raise TestbedError(
                f"vpp: VPP does not know the message {message} of its *.api.json files; "
                "are they of another build? Install both from the same one"
            )
        try:
            replies = function(**fields)
        except OSError:
            # To disconnect is another request, and VPP will not answer that either.
            self._client.transport.read_timeout = 0.0
            self._check()
            raise TestbedError(f"vpp: no answer to {message}") from None
        except ValueError as error:
            raise TestbedError(f"vpp: {message}: this build of VPP has other fields: {error}") from None
        return [reply._asdict() for reply in (replies if isinstance(replies, list) else [replies])]


def _write(definitions: str, folder: Path) -> list[str]:
    """Write each definition to a file, because the client reads files, and return their paths."""
    paths = []
    for number, document in enumerate(_documents(definitions)):
        paths.append(folder / f"{number}.api.json")
        paths[-1].write_text(document, encoding="utf-8")
    return [str(path) for path in paths]


def _documents(text: str) -> Iterator[str]:
    """Split JSON documents that follow each other. :raises TestbedError: if they are not valid."""
    decoder = json.JSONDecoder()
    end = 0
    while begins := _VISIBLE.search(text, end):
        try:
            _, end = decoder.raw_decode(text, begins.start())
        except ValueError as error:
            raise TestbedError(f"vpp: an *.api.json file is not valid: {error}; install VPP again") from None
        yield text[begins.start() : end]


def _forget_types() -> None:
    """Make the client forget the types of another build.

    It registers types for the whole process, and ignores further definitions of the same type.
    """
    from vpp_papi import vpp_serializer  # noqa: PLC0415 - an optional package

    for registry in (vpp_serializer.types, vpp_serializer.class_types):
        for name in [name for name in registry if name.startswith("vl_api_")]:
            del registry[name]
    vpp_serializer.message_cache.clear()


def _short(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_MESSAGE]
