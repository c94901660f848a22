from __future__ import annotations

import smtplib
import ssl
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from perftrend.clients.mail import (
    LONGEST_HEADER,
    Mail,
    MailServer,
    _explain,
    _may_pass,
    address,
    header,
)
from perftrend.errors import SettingsError
from perftrend.settings import MailSettings, Settings

SENDER = "perftrend@example.org"
HEADERS = {
    "From",
    "To",
    "Subject",
    "Date",
    "Message-ID",
    "In-Reply-To",
    "References",
    "List-Id",
    "Auto-Submitted",
    "X-Auto-Response-Suppress",
    "MIME-Version",
    "Content-Type",
}


def mail(**fields: str) -> Mail:
    values = {
        "recipient": "team@example.org",
        "subject": "2 regressions on 2n-clx: trending/6",
        "text": "2 regressions\n",
        "html": "<p>2 regressions</p>\n",
        "identity": "2n-clx trending 6",
        "thread": "2n-clx trending",
        "list_name": "2n-clx",
    }
    return Mail(**(values | fields))


def received(sent: Mail) -> EmailMessage:
    """Return what arrives: the bytes on the wire, read again."""
    found = message_from_bytes(sent.message(SENDER).as_bytes(), policy=default)
    assert isinstance(found, EmailMessage)
    return found


def test_mail_has_text_and_html() -> None:
    found = received(mail())

    assert "multipart/alternative" == found.get_content_type()
    assert [("text/plain", "2 regressions\n"), ("text/html", "<p>2 regressions</p>\n")] == [
        (part.get_content_type(), part.get_content().replace("\r\n", "\n")) for part in found.iter_parts()
    ]


def test_headers_tell_that_a_job_wrote_it() -> None:
    found = received(mail())

    assert HEADERS == set(found.keys())
    assert "auto-generated" == found["Auto-Submitted"]
    assert "perftrend <2n-clx.perftrend.example.org>" == found["List-Id"]
    assert found["Date"].datetime.tzinfo is not None


def test_same_mail_has_one_message_id_and_mails_of_one_job_have_one_thread() -> None:
    first, again, later, other = (
        received(each)
        for each in (mail(), mail(), mail(identity="2n-clx trending 7"), mail(recipient="ada@example.org"))
    )

    assert first["Message-ID"] == again["Message-ID"]
    assert 3 == len({each["Message-ID"] for each in (first, later, other)})
    assert first["References"] == later["References"] == later["In-Reply-To"]


HOSTILE = st.text() | st.sampled_from(
    [
        "x\r\nBcc: all@example.org",
        "x\nBcc: all@example.org\n\nbody",
        "=??Q?=0D",
        "==??Q?=0D?=",
        "x\r\n.\r\nMAIL FROM:<a@b>",
        "\N{RIGHT-TO-LEFT OVERRIDE}gpj.exe",
        "=?utf-8?q?=0D=0ABcc:_all=40example.org?=",
        "\u2028Bcc: all@example.org",
        "\x85Bcc: all@example.org",
        "\ud800",
        "x" * 5000,
        "\x00",
    ]
)


@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE)
def test_no_text_becomes_a_header(subject: str, body: str, name: str, thread: str) -> None:
    hostile = mail(subject=subject, text=body, html=body, list_name=name, identity=name, thread=thread)
    found = received(hostile)

    assert HEADERS == set(found.keys())
    assert len(HEADERS) == len(found.keys())
    assert "team@example.org" == found["To"]
    assert ["text/plain", "text/html"] == [part.get_content_type() for part in found.iter_parts()]
    lines = hostile.message(SENDER).as_bytes().split(b"\r\n")
    assert max(map(len, lines)) <= 998
    assert not any(b"\n" in line or b"\r" in line for line in lines)


@given(HOSTILE)
def test_header_is_one_short_line(text: str) -> None:
    line = header(text)

    assert line.isprintable() or not line.replace("\N{NO-BREAK SPACE}", "").isprintable()
    assert len(line.splitlines()) <= 1
    assert len(line) <= LONGEST_HEADER


@pytest.mark.parametrize(
    "text",
    [
        "",
        "team",
        "@example.org",
        "team@",
        "a@b@c",
        "Team <team@example.org>",
        "a@example.org, b@example.org",
        "a@example.org\r\nBcc: b@example.org",
        "a@example.org\n",
        "a@exam\x00ple.org",
        "a@exam\N{RIGHT-TO-LEFT OVERRIDE}ple.org",
        "a b@example.org",
        "a@example.org(comment)",
        "=?utf-8?q?=0D=0ABcc:_all?=@example.org",
        "gr\xfc\xdfe@example.org",
        "a" * 65 + "@example.org",
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not a mail address"):
        address(text)


@given(st.text(max_size=20), st.text(max_size=20))
def test_address_is_one_or_refused(name: str, host: str) -> None:
    try:
        found = address(f"{name}@{host}")
    except SettingsError:
        return
    assert HEADERS == set(received(mail(recipient=found)).keys())


def server(**fields: Any) -> MailServer:
    return MailServer(**({"host": "smtp.example.org", "port": 587, "sender": SENDER} | fields))


def test_settings_make_a_server() -> None:
    settings = Settings.load(
        environment={
            "PERFTREND_MAIL_SERVER": "[::1]:2525",
            "PERFTREND_MAIL_SECURITY": "tls",
            "PERFTREND_MAIL_SENDER": SENDER,
            "PERFTREND_MAIL_USER": "job",
            "PERFTREND_MAIL_PASSWORD": "swordfish",
            "PERFTREND_MAIL_TIMEOUT_S": "5",
        }
    )
    made = MailServer.of(settings.mail)

    assert made == server(
        host="::1", port=2525, security="tls", user="job", password=SecretStr("swordfish"), timeout_s=5.0
    )
    assert "swordfish" not in repr(made)


def test_no_server_in_the_settings_is_none() -> None:
    assert MailServer.of(MailSettings()) is None


def test_server_without_a_sender_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"mail\.sender is missing"):
        MailServer.of(MailSettings(server="localhost:25"))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"security": "none", "user": "job", "password": SecretStr("swordfish")}, "in the clear"),
        ({"user": "job"}, "belong together"),
        ({"password": SecretStr("swordfish")}, "belong together"),
        ({"port": 0}, "from 1 to 65535"),
        ({"port": 99999}, "from 1 to 65535"),
        ({"sender": "perftrend"}, "is not a mail address"),
    ],
)
def test_server_that_cannot_be_right_is_refused(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingsError, match=match) as raised:
        server(**fields)
    assert "swordfish" not in str(raised.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_password_may_stay_on_this_machine(host: str) -> None:
    assert server(host=host, security="none", user="job", password=SecretStr("swordfish"))


def refused_recipient(code: int) -> smtplib.SMTPRecipientsRefused:
    return smtplib.SMTPRecipientsRefused({"team@example.org": (code, b"no")})


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (smtplib.SMTPDataError(451, "greylisted"), True),
        (smtplib.SMTPDataError(554, "spam"), False),
        (smtplib.SMTPConnectError(421, "busy"), True),
        (smtplib.SMTPConnectError(-1, ""), True),
        (smtplib.SMTPConnectError(554, "go away"), False),
        (smtplib.SMTPAuthenticationError(535, b"no"), False),
        (smtplib.SMTPAuthenticationError(454, b"later"), True),
        (smtplib.SMTPServerDisconnected("gone"), True),
        (smtplib.SMTPNotSupportedError("STARTTLS"), False),
        (smtplib.SMTPException("no way to log in"), False),
        (refused_recipient(450), True),
        (refused_recipient(550), False),
        (ConnectionRefusedError(), True),
        (TimeoutError(), True),
        (ssl.SSLCertVerificationError(), False),
        (ssl.SSLError(), False),
        (UnicodeError(), False),
    ],
)
def test_only_what_may_pass_is_tried_again(error: Exception, expected: bool) -> None:
    assert expected is _may_pass(error)


@pytest.mark.parametrize(
    "error",
    [
        smtplib.SMTPAuthenticationError(535, b"5.7.8 bad password swordfish c3dvcmRmaXNo"),
        smtplib.SMTPDataError(554, "line one\r\nline two \x1b[31m" + "x" * 4000),
        smtplib.SMTPRecipientsRefused({"team@example.org": (550, b"no\nsuch\xffuser")}),
        UnicodeEncodeError("ascii", "sword\xe9fish", 5, 6, "ordinal not in range(128)"),
        OSError(),
    ],
)
def test_what_went_wrong_is_one_short_line_without_secrets(error: Exception) -> None:
    told = _explain(error, server(user="job", password=SecretStr("swordfish")))

    assert told.isprintable()
    assert len(told) < 220
    assert "swordfish" not in told
    assert "c3dvcmRmaXNo" not in told
    assert "fish" not in told
