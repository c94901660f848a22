"""A mail of text and HTML, ready to be sent.

The content comes from tests and archives, so it may contain anything. No line of it can become a header:
a header is one line without control characters, and an address contains nothing but an address.

Source: RFC 5322 (messages), 3834 (Auto-Submitted), 2919 (List-Id).
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from perftrend.errors import SettingsError

LONGEST_HEADER = 200
"""Characters of a subject; more than mail programs show."""

_ADDRESS = re.compile(r"(?!.*=\?)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.:\[\]-]{1,255}")
"""RFC 5322's dot-atom: no name, comment, quotes, or encoded word."""

_LABEL_LENGTH = 60


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
