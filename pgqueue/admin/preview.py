"""The expected effect of a policy, from the current messages of a channel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from hashlib import sha256

from django.db import connections
from django.utils import timezone
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from pgqueue.conf import settings
from pgqueue.engine import live_counts
from pgqueue.engine.live_counts import LAST, KeySeen
from pgqueue.listing import index
from pgqueue.listing.index import NOT_IN_ORDER, without
from pgqueue.models import Policy
from pgqueue.operating.channels import Channel
from pgqueue.options.policies import BREAKER
from pgqueue.templatetags.pgqueue_admin import figure, grouped
from pgqueue.values.number_checks import LONGEST

LIMITS = (
    *("channel", "scope", "key", "max_running", "rate", "per", "burst", "max_size", "weight"),
    *BREAKER,
)
NAMED = 5
"""The most keys that are named."""


def digest(policy: Policy) -> str:
    """Return a digest of a policy, which marks the policy as previewed."""
    said = repr([getattr(policy, name) for name in LIMITS])
    return sha256(said.encode()).hexdigest()[:32]


def in_words(policy: Policy) -> str:
    """Return the limits of a policy in words."""
    parts = []
    if policy.max_running is not None:
        parts.append(_("%s at once") % policy.max_running)
    if policy.rate is not None:
        parts.append(
            _("%(rate)s in %(per)s") % {"rate": f"{policy.rate:g}", "per": _short(policy.per)}
        )
    if policy.max_size is not None:
        parts.append(_("%s wait or run") % policy.max_size)
    if policy.weight is not None:
        parts.append(_("weight %s") % policy.weight)
    if policy.breaker_failures is not None:
        parts.append(_("breaker: %s") % _breaker(policy))
    return ", ".join(parts) or _("no limit")


def _breaker(policy: Policy) -> str:
    return _("%(failures)s failures in %(within)s, pause %(pause)s") % {
        "failures": policy.breaker_failures,
        "within": _short(policy.breaker_within or timedelta()),
        "pause": _short(policy.breaker_pause or timedelta()),
    }


def effect(policy: Policy) -> list[str]:
    """Return the effect of a policy if it were saved now, in words."""
    of_scope = _of_channel if policy.scope == Policy.Scope.CHANNEL else _of_keys
    said = list(of_scope(policy))
    if policy.breaker_failures is not None:
        said.append(
            _(
                "The circuit breaker opens by %s. Failures before it is saved do not count. After "
                "a pause, one message is tried."
            )
            % _breaker(policy)
        )
    return said


def _of_channel(policy: Policy) -> Iterator[str]:
    channel = Channel(policy.channel)
    stats = channel.stats()
    most, ready = policy.max_running, stats.ready
    if most is not None:
        yield _("%(running)s messages run now, and %(most)s may.") % {
            "running": grouped(stats.running),
            "most": grouped(most),
        }
        if stats.running > most:
            over = stats.running - most
            yield (
                ngettext(
                    "What runs goes on. None is started until %d more has ended.",
                    "What runs goes on. None is started until %d more have ended.",
                    over,
                )
                % over
            )
        elif ready > most - stats.running:
            yield _("%(free)s more are started at once; %(held)s ready ones are held back.") % {
                "free": grouped(most - stats.running),
                "held": _about(ready - (most - stats.running), stats.estimated, "ready"),
            }
        else:
            yield _("No message is held back by that.")
    if policy.rate is not None:
        yield _("The backlog of %(ready)s ready messages takes %(time)s at this rate.") % {
            "ready": _about(ready, stats.estimated, "ready"),
            "time": _time_of(policy, ready),
        }
        yield from _compared(policy, stats.enqueued_per_second)
    if policy.max_size is not None:
        size = stats.held + stats.scheduled + ready + stats.running
        yield from _size(policy, channel, size, bool(stats.estimated))


def _compared(policy: Policy, enqueued: float) -> Iterator[str]:
    per_second = (policy.rate or 0) / policy.per.total_seconds()
    if enqueued > per_second:
        yield _(
            "In the last minute %(enqueued)s were enqueued each second, and %(rate)s may start: "
            "the backlog would grow."
        ) % {"enqueued": figure(enqueued), "rate": figure(per_second)}


def _size(policy: Policy, channel: Channel, size: int, is_estimate: bool) -> Iterator[str]:
    most = policy.max_size or 0
    shown = _("about %s") % grouped(size) if is_estimate else grouped(size)
    yield _("%(size)s messages wait or run now, and %(most)s may.") % {
        "size": shown,
        "most": grouped(most),
    }
    if size < most:
        yield _("None is refused until %s more have been enqueued.") % grouped(most - size)
        return
    if channel.configured().on_full == "drop":
        yield _("What is there stays. New messages are dropped until there is room.")
    else:
        yield _("What is there stays. New messages are refused (ChannelFull) until there is room.")


def _of_keys(policy: Policy) -> Iterator[str]:
    is_one = policy.scope == Policy.Scope.KEY
    seen, is_all = _keys(policy.channel, policy.key if is_one else None)
    if not is_one:
        count = ngettext("%d key has a message now.", "%d keys have a message now.", len(seen))
        yield count % len(seen)
        if not is_all:
            yield _("There are more messages than a page looks at: others are not counted here.")
        own = Channel(policy.channel).policies()
        names = {each.key for each in own if each.scope == Policy.Scope.KEY}
        seen = [each for each in seen if each.key not in names]
        if names:
            yield ngettext(
                "%d key has a policy of its own, which holds in the place of this one.",
                "%d keys have policies of their own, which hold in the place of this one.",
                len(names),
            ) % len(names)
    if (most := policy.max_running) is not None:
        yield from _running(seen, most)
    if policy.rate is not None:
        yield _longest(policy, seen)
    if policy.max_size is not None:
        yield from _full(seen, policy)
    if policy.weight is not None:
        yield _(
            "At each turn so many messages of a key are started, where others have one: %s."
        ) % (policy.weight)


def _longest(policy: Policy, seen: Sequence[KeySeen]) -> str:
    longest = max(seen, key=lambda each: each.ready, default=None)
    if longest is None or not longest.ready:
        return _("No key has a backlog.")
    return _(
        "The longest backlog, %(ready)s ready messages of the key %(key)s, takes %(time)s "
        "at this rate."
    ) % {
        "ready": grouped(longest.ready),
        "key": longest.key,
        "time": _time_of(policy, longest.ready),
    }


def _running(seen: Sequence[KeySeen], most: int) -> Iterator[str]:
    over = [each for each in seen if each.running > most]
    held = [each for each in seen if each.ready and each.ready > most - each.running]
    if over:
        yield _("More than %(most)s run now of: %(keys)s. What runs goes on.") % {
            "most": most,
            "keys": _named(over),
        }
    if held:
        text = ngettext(
            "%(count)d key would be held back: %(keys)s.",
            "%(count)d keys would be held back: %(keys)s.",
            len(held),
        )
        yield text % {"count": len(held), "keys": _named(held)}
    else:
        yield _("No key would be held back.")


def _full(seen: Sequence[KeySeen], policy: Policy) -> Iterator[str]:
    full = [each for each in seen if each.size >= (policy.max_size or 0)]
    if not full:
        yield _("No key is full: none of their next messages is refused.")
        return
    drops = Channel(policy.channel).configured().on_full == "drop"
    said = (
        _("New messages of these keys would be dropped: %s. What is there stays.")
        if drops
        else _(
            "New messages of these keys would be refused (ChannelFull): %s. What is there stays."
        )
    )
    yield said % _named(full)


def _keys(channel: str, key: str | None) -> tuple[list[KeySeen], bool]:
    """Return the keys of a channel, and whether all of their messages were counted."""
    alias, bound = settings().database, index.REACH // 5
    # Messages without a key are left out.
    first, last = ("\x01", LAST) if key is None else (key, key)
    with without(alias, *NOT_IN_ORDER):
        seen = live_counts.by_key(connections[alias], channel, bound=bound, first=first, last=last)
    totals = [sum(counts) for counts in zip(*(each[1:] for each in seen), strict=True)]
    return seen, max(totals, default=0) < bound


def _named(seen: Sequence[KeySeen]) -> str:
    names = ", ".join(f"“{each.key}” ({_counts(each)})" for each in seen[:NAMED])
    more = len(seen) - NAMED
    return _("%(names)s and %(more)d more") % {"names": names, "more": more} if more > 0 else names


def _counts(each: KeySeen) -> str:
    return _("%(running)s running, %(ready)s ready") % {
        "running": grouped(each.running),
        "ready": grouped(each.ready),
    }


def _time_of(policy: Policy, count: int) -> str:
    seconds = policy.per.total_seconds() * (count / (policy.rate or 1))
    # At the lowest rates, the end of a large backlog is behind the last year of a datetime.
    if seconds > LONGEST.total_seconds():
        return _("more than %s") % _short(LONGEST)
    return _short(timedelta(seconds=seconds))


def _short(duration: timedelta) -> str:
    seconds = duration.total_seconds()
    if seconds < 60:
        return ngettext("%s second", "%s seconds", 1 if seconds == 1 else 2) % figure(seconds)
    now = timezone.now().replace(tzinfo=None, year=2000, month=1, day=1)
    return timesince(now, now + duration)


def _about(count: int, estimated: frozenset[str], name: str) -> str:
    shown = grouped(max(count, 0))
    return _("about %s") % shown if name in estimated else shown
