from __future__ import annotations

from time import monotonic

from pgqueue.codec.raw import as_call
from pgqueue.engine.values import Claim
from pgqueue.models import Channel

ASK_AGAIN = 1.0  # seconds


class Handlers:
    """The tasks that handle the raw messages of channels.

    Args:
        alias: the queue's database.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._known: dict[str, tuple[str, float]] = {}

    def adopt(self, claim: Claim) -> Claim:
        """Return a raw message as a call of its channel's handler with the payload.

        A message whose channel has no handler is returned unchanged.
        """
        handler = self._of(claim.channel)
        if not handler:
            return claim
        return claim._replace(task=handler, payload=as_call(claim.payload))

    def _of(self, channel: str) -> str:
        handler, asked_at = self._known.get(channel, ("", -ASK_AGAIN))
        if monotonic() - asked_at < ASK_AGAIN:
            return handler
        found = Channel.objects.using(self._alias).filter(name=channel)
        handler = found.values_list("handler", flat=True).first() or ""
        self._known[channel] = (handler, monotonic())
        return handler
