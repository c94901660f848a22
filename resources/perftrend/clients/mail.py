"""Mails of text and HTML, and their delivery to an SMTP server.

The content of a mail comes from tests and archives, so it may contain anything. No line of it can become a
header: a header is one line without control characters, and an address contains nothing but an address.

A transient failure of the server (it is unreachable, or replies 4xx) is retried; a permanent refusal (5xx) is
not. A password is sent over an encrypted connection only, and is not part of any message.

Source: RFC 5321 (SMTP), section 4.2.1 (transient and permanent replies), 5322 (messages), 3834
(Auto-Submitted), 2919 (List-Id).
"""

from __future__ import annotations

import hashlib
import re
import smtplib
import socket
import ssl
import threading
import unicodedata
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from typing import Literal

import tenacity
from pydantic import SecretStr
from typing_extensions import override

from perftrend.clients.http_session import is_here
from perftrend.errors import ServiceError, SettingsError
from perftrend.settings import MailSettings

LONGEST_HEADER = 200
"""Characters of a subject; more than mail programs show."""

_ADDRESS = re.compile(r"(?!.*=\?)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.:\[\]-]{1,255}")
"""RFC 5322's dot-atom: no name, comment, quotes, or encoded word."""

_LABEL_LENGTH = 60

_LONGEST_ANSWER = 160
_LONGEST_WAIT_S = 60.0
_PATIENCE = 10
"""Maximum duration of a session in multiples of the timeout: a server that sends bytes slowly is cut off."""

_NO_ANSWER = -1
"""smtplib's code for a server that closed the connection instead of replying."""
_TEMPORARY = range(400, 500)
_PORTS = range(1, 65536)
_OF_ONE_MAIL = (smtplib.SMTPRecipientsRefused, smtplib.SMTPSenderRefused, smtplib.SMTPDataError)


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to one recipient."""

    recipient: str
    """An address, without a name around it."""
    subject: str
    text: str
    html: str
    identity: str
    """Identifies the mail, such as by its run: the same mail sent twice has one Message-ID."""
    thread: str
    """Identifies its thread: mail programs show the mails of one thread together."""
    list_name: str = "alerts"
    """The list name that recipients filter by."""

    def message(self, sender: str) -> EmailMessage:
        """Return the mail as multipart/alternative.

        :param sender: an address, without a name around it.
        :raises SettingsError: if the sender or the recipient is not an address.
        """
        domain = address(sender).partition("@")[2]
        thread = f"<perftrend.thread.{_digest(self.thread)}@{domain}>"
        message = EmailMessage(policy=SMTP)
        message["From"] = sender
        message["To"] = address(self.recipient)
        message["Subject"] = header(self.subject)
        message["Date"] = formatdate(usegmt=True)
        message["Message-ID"] = f"<perftrend.{_digest(self.identity, self.recipient)}@{domain}>"
        message["In-Reply-To"] = message["References"] = thread
        message["List-Id"] = f"perftrend <{_label(self.list_name)}.perftrend.{domain}>"
        # Suppress out-of-office replies: one header for the standard, one for Exchange.
        message["Auto-Submitted"] = "auto-generated"
        message["X-Auto-Response-Suppress"] = "All"
        # Quoted-printable limits the length of lines, whatever the tests wrote.
        message.set_content(_printable(self.text), cte="quoted-printable")
        message.add_alternative(_printable(self.html), subtype="html", cte="quoted-printable")
        return message


def address(text: str) -> str:
    """Return an address unchanged.

    :raises SettingsError: if it is anything else: with a name around it, several addresses, or two lines.
    """
    if not _ADDRESS.fullmatch(text):
        raise SettingsError(f"{header(text)!r} is not a mail address; write it as team@example.org")
    return text


def header(text: str) -> str:
    """Return a text as one line of limited length, without control and format characters."""
    line = " ".join("".join(" " if _is_control(each) else each for each in text).split())
    # An apparent encoded word would be decoded, and a line end in it would end the header.
    line = line.replace("=?", "= ?")
    return line if len(line) <= LONGEST_HEADER else f"{line[: LONGEST_HEADER - 1]}…"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _printable(text: str) -> str:
    """Return a body with its lines, and with characters replaced that a mail must not contain."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_wild(each) else each for each in text)


def _is_wild(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cs"}


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:32]


def _label(text: str) -> str:
    """Return a text as a label of a domain name, as a List-Id requires it."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LABEL_LENGTH].strip("-") or "alerts"


class MailRefusedError(ServiceError):
    """The server refused one mail; it may accept others."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """An SMTP server and the login for it.

    :raises SettingsError: if the sender is not an address, or a password would be sent unencrypted.
    """

    host: str
    port: int
    sender: str
    security: Literal["starttls", "tls", "none"] = "starttls"
    """``starttls`` requires the upgrade to TLS after connecting, ``tls`` is encrypted from the start."""
    user: str | None = None
    password: SecretStr | None = None
    timeout_s: float = 30.0
    """Maximum wait for a reply of the server."""
    attempts: int = 4
    """Maximum number of attempts if failures are transient."""
    wait_s: float = 2.0
    """Wait before the second attempt, in seconds; each further wait is twice as long."""
    context: ssl.SSLContext | None = field(default=None, repr=False)
    """Trusted certificates; None: those of the system."""

    def __post_init__(self) -> None:
        address(self.sender)
        if self.port not in _PORTS:
            raise SettingsError(f"mail.server is {self.name}; its port should be from 1 to 65535")
        if self.user is not None and self.security == "none" and not is_here(self.host):
            raise SettingsError(
                f"mail.security is 'none', and the password would reach {self.host} in the clear; "
                "use starttls or tls, or no user"
            )
        if (self.user is None) != (self.password is None):
            raise SettingsError("mail.user and mail.password belong together; give both or none")

    @classmethod
    def of(cls, settings: MailSettings) -> MailServer | None:
        """Return the server of the settings, or None if they do not name one.

        :raises SettingsError: if they do not name a sender, or a password would be sent unencrypted.
        """
        if settings.server is None:
            return None
        if settings.sender is None:
            raise SettingsError(
                f"mail.server is {settings.server}, and mail.sender is missing; give an address"
            )
        host, _, port = settings.server.rpartition(":")
        return cls(
            host=host.strip("[]"),
            port=int(port),
            sender=settings.sender,
            security=settings.security,
            user=settings.user,
            password=settings.password,
            timeout_s=settings.timeout_s,
        )

    @property
    def name(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    def send(self, mail: Mail) -> None:
        """Deliver a mail, and retry after transient failures.

        :raises SettingsError: if the recipient is not an address.
        :raises MailRefusedError: if the server refuses this mail.
        :raises ServiceError: if it cannot be reached, is not trusted, or refuses the user.
        """
        message = mail.message(self.sender).as_bytes()
        attempt = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(self.attempts),
            wait=tenacity.wait_exponential(multiplier=self.wait_s, max=_LONGEST_WAIT_S),
            retry=tenacity.retry_if_exception(_may_pass),
            reraise=True,
        )
        try:
            attempt(self._send_once, message, mail.recipient)
        except (OSError, smtplib.SMTPException, UnicodeError) as error:
            kind = MailRefusedError if isinstance(error, _OF_ONE_MAIL) else ServiceError
            # Not chained: errors of smtplib may contain what was sent, including the password.
            raise kind(f"mail to {mail.recipient} by {self.name}: {_explain(error, self)}") from None

    def _send_once(self, message: bytes, recipient: str) -> None:
        conversation = _TlsConversation(self) if self.security == "tls" else _Conversation(self)
        try:
            if self.security == "starttls":
                conversation.starttls(context=self.tls_context())
            if self.user is not None and self.password is not None:
                conversation.login(self.user, self.password.get_secret_value())
            conversation.sendmail(self.sender, [recipient], message)
            # The server has accepted the mail. An error of QUIT must not cause a second delivery.
            with suppress(OSError, smtplib.SMTPException):
                conversation.quit()
        finally:
            conversation.close()

    def tls_context(self) -> ssl.SSLContext:
        """Return the TLS context with the trusted certificates."""
        return self.context or ssl.create_default_context()


class _Conversation(smtplib.SMTP):
    """A connection that is closed if the whole session takes too long."""

    def __init__(self, server: MailServer) -> None:
        self._limit = threading.Timer(_PATIENCE * server.timeout_s, self._shut_down)
        self._limit.daemon = True
        self._limit.start()
        try:
            self._open(server)
        except BaseException:
            self.close()
            raise

    def _open(self, server: MailServer) -> None:
        smtplib.SMTP.__init__(self, server.host, server.port, timeout=server.timeout_s)

    @override
    def close(self) -> None:
        self._limit.cancel()
        super().close()

    def _shut_down(self) -> None:
        if self.sock is not None:
            with suppress(OSError):
                # Below TLS, which would wait for the server's close_notify.
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class _TlsConversation(_Conversation, smtplib.SMTP_SSL):
    """A connection that is encrypted from the start."""

    @override
    def _open(self, server: MailServer) -> None:
        smtplib.SMTP_SSL.__init__(
            self, server.host, server.port, timeout=server.timeout_s, context=server.tls_context()
        )


def _may_pass(error: BaseException) -> bool:
    """Whether a later attempt may succeed."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        return all(_is_temporary(code) for code, _ in error.recipients.values())
    if isinstance(error, smtplib.SMTPResponseException):
        return _is_temporary(error.smtp_code)
    if isinstance(error, smtplib.SMTPServerDisconnected):
        return True
    if isinstance(error, socket.gaierror):
        return error.errno == socket.EAI_AGAIN
    # smtplib's own errors are OSErrors, too: the remaining ones are permanent.
    return isinstance(error, OSError) and not isinstance(error, (ssl.SSLError, smtplib.SMTPException))


def _is_temporary(code: int) -> bool:
    return code == _NO_ANSWER or code in _TEMPORARY


def _explain(error: Exception, server: MailServer) -> str:
    """Return in one line what went wrong and what to do."""
    return next(explain(error, server) for kind, explain in _EXPLANATIONS if isinstance(error, kind))


def _user_refusal(error: smtplib.SMTPAuthenticationError, server: MailServer) -> str:
    # The server's reply may repeat what was sent.
    user = header(server.user or "")
    return f"user {user!r} was refused ({error.smtp_code}); check mail.user and mail.password"


def _recipient_refusal(error: smtplib.SMTPRecipientsRefused, _: MailServer) -> str:
    code, answer = next(iter(error.recipients.values()))
    return f"the recipient was refused: {_answer(code, answer)}"


def _refusal(error: smtplib.SMTPResponseException, _: MailServer) -> str:
    return f"refused: {_answer(error.smtp_code, error.smtp_error)}"


def _not_offered(_: Exception, server: MailServer) -> str:
    wanted = "STARTTLS" if server.security == "starttls" else "what the mail or the user needs"
    return f"the server does not offer {wanted}; check mail.security and mail.user"


def _not_trusted(error: ssl.SSLCertVerificationError, _: MailServer) -> str:
    return f"its certificate is not trusted ({header(error.verify_message)}); trust its issuer"


def _not_connected(error: OSError, _: MailServer) -> str:
    return f"{header(error.strerror or 'no connection')}; check mail.server"


# The first match applies: smtplib's errors are OSErrors, and so are those of TLS.
_EXPLANATIONS: tuple[tuple[type[Exception], Callable[..., str]], ...] = (
    (smtplib.SMTPAuthenticationError, _user_refusal),
    (smtplib.SMTPRecipientsRefused, _recipient_refusal),
    (smtplib.SMTPResponseException, _refusal),
    (smtplib.SMTPServerDisconnected, lambda _, __: "the server closed the connection; try again later"),
    (smtplib.SMTPException, _not_offered),
    (ssl.SSLCertVerificationError, _not_trusted),
    (ssl.SSLError, lambda _, __: "the TLS handshake failed; check mail.security and the port"),
    (TimeoutError, lambda _, server: f"no answer within {server.timeout_s:g} s; is it the right port?"),
    (UnicodeError, lambda _, __: "host, user or password cannot be written in ASCII, as SMTP requires"),
    (OSError, _not_connected),
)


def _answer(code: int, answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return f"{code} {header(text)[:_LONGEST_ANSWER]}".rstrip()
