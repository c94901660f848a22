"""Mails on their way to a real SMTP server: encrypted, with a login, refused, and at the second try."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from benchmarks.example_verdicts import example_verdicts
from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.errors import ServiceError
from perftrend.report import mails

HOST = "127.0.0.1"
SENDER = "perftrend@example.org"
TEAM = "team@example.org"
PASSWORD = "sword fish"  # noqa: S105 - of a server that lives for one test

MAIL = Mail(
    recipient=TEAM,
    subject="2 regressions on 2n-clx: trending/6",
    text="Grüße\n.\nFrom here on: " + "x" * 3000 + "\n",
    html="<p>Grüße</p>\n",
    identity="2n-clx trending 6",
    thread="2n-clx trending",
)


@dataclass
class Mailbox:
    """Keeps what arrives, and answers the first mails as it is told."""

    answers: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    envelopes: list[Envelope] = field(default_factory=list)
    tried: int = 0

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refused:
            self.tried += 1
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 - aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        self.tried += 1
        if self.answers:
            return self.answers.pop(0)
        self.envelopes.append(envelope)
        return "250 OK"

    @property
    def messages(self) -> list[EmailMessage]:
        found = []
        for envelope in self.envelopes:
            assert isinstance(envelope.content, bytes)
            message = message_from_bytes(envelope.content, policy=default)
            assert isinstance(message, EmailMessage)
            found.append(message)
        return found


@contextmanager
def running(mailbox: Mailbox, **options: Any) -> Iterator[MailServer]:
    """Run an SMTP server on a port that the system chooses."""
    controller = Controller(mailbox, hostname=HOST, port=free_port(), **options)
    controller.start()
    try:
        yield MailServer(
            host=HOST, port=controller.port, sender=SENDER, security="none", timeout_s=60, wait_s=0.01
        )
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        return int(listener.getsockname()[1])


@dataclass(frozen=True)
class Certificate:
    served: ssl.SSLContext
    trusted: ssl.SSLContext


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """Make a certificate for this machine that nobody else has signed."""
    folder = tmp_path_factory.mktemp("certificate")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "certificate.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    served = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    served.load_cert_chain(file)
    return Certificate(served, ssl.create_default_context(cafile=str(file)))


def authenticator(
    server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: object
) -> AuthResult:
    right = LoginPassword(b"job", PASSWORD.encode())
    return AuthResult(success=data == right, handled=False)


def test_mail_arrives_as_it_was_written() -> None:
    mailbox = Mailbox()
    with running(mailbox) as server:
        server.send(MAIL)

    (message,) = mailbox.messages
    text, html = message.iter_parts()
    assert (SENDER, [TEAM]) == (mailbox.envelopes[0].mail_from, mailbox.envelopes[0].rcpt_tos)
    assert (MAIL.subject, TEAM) == (message["Subject"], message["To"])
    assert MAIL.text == text.get_content().replace("\r\n", "\n")
    assert MAIL.html == html.get_content().replace("\r\n", "\n")


def test_starttls_and_login(certificate: Certificate) -> None:
    mailbox = Mailbox()
    with running(
        mailbox,
        tls_context=certificate.served,
        require_starttls=True,
        auth_required=True,
        authenticator=authenticator,
    ) as server:
        replace(
            server,
            security="starttls",
            context=certificate.trusted,
            user="job",
            password=SecretStr(PASSWORD),
        ).send(MAIL)

    assert 1 == len(mailbox.messages)


def test_tls_from_the_start(certificate: Certificate) -> None:
    mailbox = Mailbox()
    with running(mailbox, ssl_context=certificate.served) as server:
        replace(server, security="tls", context=certificate.trusted).send(MAIL)

    assert 1 == len(mailbox.messages)


def test_wrong_password_is_refused_without_telling_it(certificate: Certificate) -> None:
    mailbox = Mailbox()
    with (
        running(mailbox, tls_context=certificate.served, authenticator=authenticator) as server,
        pytest.raises(ServiceError, match=r"user 'job' was refused \(535\)") as raised,
    ):
        replace(
            server,
            security="starttls",
            context=certificate.trusted,
            user="job",
            password=SecretStr("wrong fish"),
        ).send(MAIL)

    assert "fish" not in str(raised.value)
    assert not mailbox.messages


@pytest.mark.parametrize("security", ["starttls", "tls"])
def test_certificate_that_nobody_trusts_is_refused(certificate: Certificate, security: str) -> None:
    options = {"tls_context" if security == "starttls" else "ssl_context": certificate.served}
    mailbox = Mailbox()
    with (
        running(mailbox, **options) as server,
        pytest.raises(ServiceError, match="certificate is not trusted"),
    ):
        replace(server, security=security).send(MAIL)  # type: ignore[arg-type]

    assert not mailbox.messages


def test_server_without_starttls_gets_nothing_in_the_clear() -> None:
    mailbox = Mailbox()
    with running(mailbox) as server, pytest.raises(ServiceError, match="does not offer STARTTLS"):
        replace(server, security="starttls").send(MAIL)

    assert not mailbox.messages


def test_tls_to_a_server_that_speaks_in_the_clear_says_so() -> None:
    with (
        running(Mailbox()) as server,
        pytest.raises(ServiceError, match=r"check mail\.security and the port"),
    ):
        replace(server, security="tls").send(MAIL)


def test_temporary_failure_is_tried_again() -> None:
    mailbox = Mailbox(answers=["451 4.7.1 greylisted", "421 4.3.2 closing"])
    with running(mailbox) as server:
        server.send(MAIL)

    assert (3, 1) == (mailbox.tried, len(mailbox.messages))


def test_temporary_failure_that_stays_is_given_up() -> None:
    mailbox = Mailbox(answers=["451 4.7.1 greylisted"] * 9)
    with running(mailbox) as server, pytest.raises(MailRefusedError, match=r"451 4\.7\.1 greylisted"):
        replace(server, attempts=3).send(MAIL)

    assert 3 == mailbox.tried


def test_lasting_failure_is_not_tried_again() -> None:
    mailbox = Mailbox(answers=["554 5.7.1 looks like\r\n554 spam"])
    with running(mailbox) as server, pytest.raises(MailRefusedError, match="554") as raised:
        server.send(MAIL)

    assert 1 == mailbox.tried
    assert "\n" not in str(raised.value)


def test_refused_recipient_is_named() -> None:
    mailbox = Mailbox(refused={TEAM: "550 5.1.1 no such user"})
    with (
        running(mailbox) as server,
        pytest.raises(
            MailRefusedError, match=r"mail to team@example\.org by 127.*: the recipient was refused: 550"
        ),
    ):
        server.send(MAIL)

    assert 1 == mailbox.tried


def test_server_that_is_not_there_is_named() -> None:
    server = MailServer(host=HOST, port=free_port(), sender=SENDER, security="none", attempts=2, wait_s=0.01)

    with pytest.raises(ServiceError, match=rf"by 127\.0\.0\.1:{server.port}: Connection refused"):
        server.send(MAIL)


@contextmanager
def speaking(talk: Callable[[socket.socket], None]) -> Iterator[int]:
    """Run a server that does no SMTP: it says to each connection what ``talk`` says."""
    listener = socket.create_server((HOST, 0))
    done = threading.Event()

    def serve() -> None:
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    talk(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        done.set()
        # accept() does not end when its socket is closed; a last connection ends it.
        with socket.create_connection((HOST, listener.getsockname()[1])):
            pass
        listener.close()
        thread.join(timeout=5)


def silent(connection: socket.socket) -> None:
    connection.recv(1)


def dripping(connection: socket.socket) -> None:
    pause = threading.Event()
    while True:
        connection.sendall(b"2")
        pause.wait(0.02)


def babbling(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")


@pytest.mark.parametrize(
    ("talk", "timeout_s", "match"),
    [
        (silent, 0.1, "no answer within|closed the connection"),
        (dripping, 0.1, "no answer within|refused|closed the connection"),
        (babbling, 60, "refused|closed the connection"),
        (socket.socket.close, 60, "closed the connection"),
    ],
)
def test_server_that_does_not_speak_smtp_is_given_up(
    talk: Callable[[socket.socket], None], timeout_s: float, match: str
) -> None:
    with speaking(talk) as port:
        server = MailServer(
            host=HOST, port=port, sender=SENDER, security="none", timeout_s=timeout_s, attempts=2, wait_s=0.01
        )

        with pytest.raises(ServiceError, match=match):
            server.send(MAIL)


def test_run_is_mailed_to_those_whom_it_concerns(tmp_path: Path) -> None:
    verdicts = example_verdicts(tests=26, runs=60)
    owned = [replace(verdicts[0], mail=("ada@example.org",)), *verdicts[1:]]
    run = verdicts[0].series.runs[-1]
    mailbox = Mailbox(refused={"gone@example.org": "550 5.1.1 no such user"})
    record = mails.MailRecord(tmp_path)

    def send(server: MailServer) -> tuple[str, ...]:
        return mails.send(
            lambda _: owned,
            run=run,
            runs=[run],
            server=server,
            recipients=[TEAM, "gone@example.org"],
            record=record,
        )

    with running(mailbox) as server:
        with pytest.raises(ServiceError, match=r"gone@example\.org"):
            send(server)
        mailbox.refused.clear()
        assert ("gone@example.org",) == send(server)
        assert () == send(server)

    assert ["ada@example.org", TEAM, "gone@example.org"] == [message["To"] for message in mailbox.messages]
    assert all(message["Subject"].startswith("SIMULATED: ") for message in mailbox.messages)
