"""A mail of text and HTML, ready to be sent.

What is said comes from tests and archives, so it may hold anything. No line of it can become a
header: a header is one line without control characters, and an address is nothing but an address.

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
"""Characters of a subject; more than any mail program shows."""

_ADDRESS = re.compile(r"(?!.*=\?)[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9.:\[\]-]{1,255}")
"""RFC 5322's dot-atom: no name, no comment, no quotes, nothing that is or holds an encoded word."""

_LABEL_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Mail:
    """What one recipient gets."""

    recipient: str
    """An address, without a name around it."""
    subject: str
    text: str
    html: str
    identity: str
    """What the mail is, such as its run: the same mail sent twice has one Message-ID."""
    thread: str
    """What it belongs to: mail programs show the mails of one thread together."""
    list_name: str = "alerts"
    """What a recipient filters by."""

    def message(self, sender: str) -> EmailMessage:
        """Return the mail as multipart/alternative.

        :param sender: an address, without a name around it.
        :raises SettingsError: if the sender or the recipient is no address.
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
        # Nobody's out-of-office reply is of use to a job: one header for the standard, one for Exchange.
        message["Auto-Submitted"] = "auto-generated"
        message["X-Auto-Response-Suppress"] = "All"
        # Quoted-printable keeps every line short, whatever the tests wrote.
        message.set_content(_printable(self.text), cte="quoted-printable")
        message.add_alternative(_printable(self.html), subtype="html", cte="quoted-printable")
        return message


def address(text: str) -> str:
    """Return an address as it is.

    :raises SettingsError: if it is anything else: with a name around it, several, of two lines.
    """
    if not _ADDRESS.fullmatch(text):
        raise SettingsError(f"{header(text)!r} is no mail address; write it as team@example.org")
    return text


def header(text: str) -> str:
    """Make one line of a text, without control and format characters and not too long."""
    line = " ".join("".join(" " if _is_control(each) else each for each in text).split())
    # What looks like an encoded word would be decoded, and the line end in it would end the header.
    line = line.replace("=?", "= ?")
    return line if len(line) <= LONGEST_HEADER else f"{line[: LONGEST_HEADER - 1]}…"


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def _printable(text: str) -> str:
    """Keep the lines of a body, and replace what no mail may hold."""
    return "".join("\N{REPLACEMENT CHARACTER}" if _is_wild(each) else each for each in text)


def _is_wild(character: str) -> bool:
    return character not in "\n\t" and unicodedata.category(character) in {"Cc", "Cs"}


def _digest(*parts: str) -> str:
    text = "\0".join(parts).encode("utf-8", "replace")
    return hashlib.sha256(text).hexdigest()[:32]


def _label(text: str) -> str:
    """Make a text a label of a domain name, as a List-Id has them."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_LABEL_LENGTH].strip("-") or "alerts"
