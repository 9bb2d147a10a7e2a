from __future__ import annotations

import socket
from collections import Counter
from email import message_from_bytes, policy
from types import TracebackType

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

HOST = "127.0.0.1"


class MailServer:
    """A real SMTP server on loopback, which counts the receipts that it gets for each order.

    Attributes:
        received: mails by order id. The server's thread alone writes it.
        reports: what each mail of a report says. Likewise.
        links: the links by which the owner agrees to refunds. Likewise.
    """

    host = HOST

    def __init__(self) -> None:
        self.port = _free_port()
        self.received: Counter[int] = Counter()
        self.reports: list[str] = []
        self.links: list[str] = []
        self._controller = Controller(self, hostname=HOST, port=self.port)

    def __enter__(self) -> MailServer:
        self._controller.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._controller.stop()

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Take one mail; aiosmtpd calls it so."""
        mail = message_from_bytes(envelope.original_content or b"", policy=policy.default)
        if said := mail["X-Report"]:
            self.reports.append(said)
        elif mail["X-Question"]:
            self.links.append(mail.get_content().split()[-1])
        else:
            self.received[int(mail["X-Order"])] += 1
        return "250 OK"


def _free_port() -> int:
    # aiosmtpd can't be told to find one by itself.
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
    return port
