"""Make the webhook of a scenario, or resume it.

Run as `python -m tests.chaos.webhook make URL`, or `… resume`.
"""

from __future__ import annotations

import sys

import django

A_DAY = 8.0
"""Seconds that a day takes here: the defaults are as much shorter."""
SCALE = A_DAY / 86_400


def main(verb: str, *arguments: str) -> None:
    """Do what is asked for."""
    django.setup()
    from pgqueue import Exponential, webhooks
    from pgqueue.conf import settings

    if verb == "resume":
        print(webhooks.resume("shop"))
        return
    usual = settings().webhooks.backoff
    assert isinstance(usual, Exponential)
    shorter = Exponential(base=usual.base * SCALE, cap=usual.cap * SCALE)
    webhooks.create("shop", arguments[0], start="beginning", backoff=shorter)


if __name__ == "__main__":
    main(*sys.argv[1:])
