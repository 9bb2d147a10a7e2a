import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.core.management.base import CommandError

from pgqueue.engine.breakers import BreakerSeen
from pgqueue.engine.live_counts import Stats
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments, rows
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.management.operating import SAMPLE, would_be
from pgqueue.management.snapshot import stats_as_json
from pgqueue.management.tables import COUNTS, of_stats, pause_of
from pgqueue.models import Message, Policy
from pgqueue.models.channel import RETENTIONS
from pgqueue.models.message import MessageQuerySet
from pgqueue.operating.channels import Channel
from pgqueue.states import Outcome
from pgqueue.values.escaping import on_one_line

LIMITS = ("max_running", "rate", "per", "burst", "max_size", "weight", "breaker")
ENDED = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.CANCELLED: "were cancelled",
    Outcome.DISCARDED: "were discarded",
    Outcome.EXPIRED: "expired",
}


class Command(QueueCommand):
    help = "Show, limit, pause and empty channels."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

        verbs.add_parser("list", help="show the counts of each channel.")
        showing = verbs.add_parser("show", help="show the counts and policies of a channel.")
        count, size = arguments.whole(least=1), arguments.whole()
        seconds = arguments.seconds

        policy = verbs.add_parser("policy", help="limit the channel, each of its keys, or one key.")
        policy.add_argument(
            "--key",
            type=arguments.key,
            help="limit only this key, in place of the limits of each key.",
        )
        policy.add_argument("--each-key", action="store_true")
        policy.add_argument("--max-running", type=count, metavar="N", help="the most runs at once.")
        policy.add_argument(
            "--rate", type=float, metavar="N", help="the most starts in the time --per."
        )
        policy.add_argument("--per", type=float, metavar="S", help="seconds (1).")
        policy.add_argument(
            "--burst", type=count, metavar="N", help="the most starts at once after a pause."
        )
        policy.add_argument(
            "--max-size", type=count, metavar="N", help="the most messages that wait or run."
        )
        policy.add_argument("--weight", type=count, metavar="N", help="messages for each turn.")
        policy.add_argument(
            "--breaker",
            nargs=3,
            type=float,
            metavar=("FAILURES", "WITHIN", "PAUSE"),
            help="after so many failures within seconds, no message starts for seconds, then one.",
        )
        policy.add_argument("--remove", action="store_true", help="lift these limits.")

        retention = verbs.add_parser(
            "retention", help="set the retention of its history; an unnamed part has the default."
        )
        retention.add_argument(
            "--history", type=float, metavar="S", help="seconds, for all outcomes."
        )
        for outcome in Outcome:
            retention.add_argument(
                f"--{outcome.value}",
                type=float,
                metavar="S",
                help=f"messages that {ENDED[outcome]}.",
            )
        retention.add_argument("--dead", type=float, metavar="S", help="its dead letters.")

        pausing = verbs.add_parser("pause", help="let workers start none of its messages.")
        pausing.add_argument(
            "--until",
            type=arguments.due,
            metavar="WHEN",
            help="the end of the pause: seconds from now, or a time (until it is resumed).",
        )
        resuming = verbs.add_parser("resume", help="let workers start its messages again.")
        drain = verbs.add_parser(
            "drain", help="wait until no message is ready, running or retried."
        )
        release = verbs.add_parser(
            "release", help="drain the channel, and forget its configuration."
        )
        for verb in (drain, release):
            verb.add_argument("--timeout", type=seconds, metavar="S", help="seconds (for ever).")
        purge = verbs.add_parser("purge", help="end its waiting messages and dead letters.")
        trim = verbs.add_parser("trim", help="end its oldest waiting messages.")
        trim.add_argument(
            "--older-than", type=seconds, metavar="S", help="the least age in seconds."
        )
        trim.add_argument("--keep", type=size, metavar="N", help="keep this number of messages.")
        for verb in (purge, trim):
            verb.add_argument(
                "--dry-run",
                action="store_true",
                help="only count the messages, and show the first.",
            )

        of_one = (showing, policy, retention, pausing, resuming, drain, release, purge, trim)
        for verb in of_one:
            verb.add_argument("name", type=arguments.channel, metavar="NAME", help="the channel's.")
        for verb in verbs.choices.values():
            arguments.add_format(verb)
        arguments.add_database(parser, verbs.choices.values())

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        database = database_of(options["database"])
        try:
            if verb == "list":
                self._list(Channel.all_stats(database=database), options["format"])
            else:
                said = VERBS[verb](Channel(options["name"], database=database), options)
                is_json = options["format"] == "json"
                self.stdout.write(json.dumps(said.plain) if is_json else said.text)
        except (PGQueueError, ValueError) as error:
            raise CommandError(str(error)) from error

    def _list(self, found: Mapping[str, Stats], style: str) -> None:
        if style == "json":
            self.stdout.write(
                json.dumps({name: stats_as_json(each) for name, each in found.items()})
            )
            return
        shown = {on_one_line(name): each for name, each in found.items()}
        width = max([7, *map(len, shown)])
        self.stdout.write(f"{'channel':<{width}} {_row([*COUNTS, 'oldest', 'in/s', 'out/s'])}")
        for name, each in shown.items():
            self.stdout.write(f"{name:<{width}} {_row(of_stats(each))}")


class Said(NamedTuple):
    """The output of a verb, in words and as JSON."""

    text: str
    plain: Mapping[str, Any]


def _said_of(channel: Channel, text: str, **plain: Any) -> Said:
    return Said(text, {"channel": channel.name, **plain})


def _show(channel: Channel, options: Mapping[str, Any]) -> Said:
    stats, policies = channel.stats(), [_said(each) for each in channel.policies()]
    kept = _kept(channel)
    seconds = {name: keep.total_seconds() for name, keep in kept.items()}
    plain = {**stats_as_json(stats), "policies": policies, **seconds}
    lines = [f"{name:>20} {value}" for name, value in zip(NAMES, of_stats(stats), strict=True)]
    lines += [f"{'pause':>20} {pause}"] if (pause := pause_of(stats)) else []
    lines += [f"{name.replace('_', ' '):>20} {keep}" for name, keep in kept.items()]
    lines += [f"{'policy':>20} {_in_words(each)}" for each in policies]
    breakers = channel.breakers()
    lines += [f"{'breaker':>20} {_breaker_in_words(each)}" for each in breakers]
    plain["breakers"] = [_said_of_breaker(each) for each in breakers]
    return Said("\n".join(lines), plain)


def _kept(channel: Channel) -> dict[str, timedelta]:
    """Return the retention periods that the channel sets."""
    row = channel.configured()
    kept = {name: getattr(row, name) for name in RETENTIONS}
    return {name: keep for name, keep in kept.items() if keep is not None}


def _policy(channel: Channel, options: Mapping[str, Any]) -> Said:
    scope = {"key": options["key"], "each_key": options["each_key"]}
    limits = {name: options[name] for name in LIMITS if options[name] is not None}
    if breaker := options["breaker"]:
        failures, *times = breaker
        limits["breaker"] = (int(failures) if failures.is_integer() else failures, *times)
    if options["remove"]:
        if limits:
            raise CommandError(f"--remove lifts all of its limits: leave out {', '.join(limits)}.")
        removed = channel.remove_policy(**scope)
        return _said_of(channel, "Removed." if removed else "There was none.", removed=removed)
    channel.policy(**scope, **limits)
    return _said_of(channel, "Saved.", policies=[_said(each) for each in channel.policies()])


def _retention(channel: Channel, options: Mapping[str, Any]) -> Said:
    """Save the whole retention; without options, the channel has the defaults."""
    named = {each: options[each] for each in Outcome.values if options[each] is not None}
    everything = options["history"]
    if named and everything is not None:
        named = {**dict.fromkeys(Outcome.values, everything), **named}
    channel.configure(retention=named or everything, dead_retention=options["dead"])
    kept = {name: keep.total_seconds() for name, keep in _kept(channel).items()}
    return _said_of(channel, "Saved.", **kept)


def _pause(channel: Channel, options: Mapping[str, Any]) -> Said:
    changed = channel.pause(until=options["until"])
    text = "Paused." if changed else "It was paused already."
    until = channel.configured().paused_until
    end = {} if until is None else {"until": until.isoformat()}
    if end:
        text += f" The pause ends at {end['until']}."
    return _said_of(channel, text, paused=True, changed=changed, **end)


def _resume(channel: Channel, options: Mapping[str, Any]) -> Said:
    changed = channel.resume()
    text = "Resumed." if changed else "It was not paused."
    return _said_of(channel, text, paused=False, changed=changed)


def _drain(channel: Channel, options: Mapping[str, Any]) -> Said:
    if not channel.drain(options["timeout"]):
        raise CommandError(f"After {options['timeout']:g} s there is still something to do.")
    return _said_of(channel, "Nothing is left to do.", drained=True)


def _release(channel: Channel, options: Mapping[str, Any]) -> Said:
    if not channel.release(options["timeout"]):
        raise CommandError(f"After {options['timeout']:g} s there is still something to do.")
    return _said_of(channel, "Released.", released=True)


def _purge(channel: Channel, options: Mapping[str, Any]) -> Said:
    if options["dry_run"]:
        return _look(channel, channel.purgeable())
    return _discarded(channel, channel.purge())


def _trim(channel: Channel, options: Mapping[str, Any]) -> Said:
    bounds = {"older_than": options["older_than"], "keep": options["keep"]}
    if options["dry_run"]:
        return _look(channel, channel.trimmable(**bounds))
    return _discarded(channel, channel.trim(**bounds))


def _discarded(channel: Channel, count: int) -> Said:
    return _said_of(channel, f"{count} discarded.", dry_run=False, discarded=count)


def _look(channel: Channel, messages: MessageQuerySet) -> Said:
    """Return the number of messages that would be discarded, and the first of them."""
    ids = list(messages.order_by("pk").values_list("pk", flat=True)[:SAMPLE])
    found, sample = messages.count(), rows.read(Message.objects.using(channel.alias), ids)
    return _said_of(
        channel,
        "\n".join(would_be("discarded", found, sample)),
        dry_run=True,
        found=found,
        sample=sample,
    )


VERBS: Mapping[str, Callable[[Channel, Mapping[str, Any]], Said]] = {
    "show": _show,
    "policy": _policy,
    "retention": _retention,
    "pause": _pause,
    "resume": _resume,
    "drain": _drain,
    "release": _release,
    "purge": _purge,
    "trim": _trim,
}
NAMES = (*COUNTS, "oldest ready", "enqueued a second", "finished a second")


def _row(cells: list[str]) -> str:
    return " ".join(f"{cell:>10}" for cell in cells)


def _said(policy: Policy) -> dict[str, Any]:
    """Return the scope and the limits of a policy; `per` is in seconds."""
    columns = {name: getattr(policy, name) for name in LIMITS if name != "breaker"}
    limits = {name: value for name, value in columns.items() if value is not None}
    if policy.breaker_within and policy.breaker_pause:
        times = (policy.breaker_within, policy.breaker_pause)
        seconds = [each.total_seconds() for each in times]
        limits["breaker"] = [policy.breaker_failures, *seconds]
    per = {"per": policy.per.total_seconds()} if policy.rate else {}
    limits.pop("per")
    key = {"key": policy.key} if policy.key else {}
    return {"scope": policy.scope, **key, **limits, **per}


def _said_of_breaker(breaker: BreakerSeen) -> dict[str, Any]:
    until = breaker.open_until
    return {
        **breaker._asdict(),
        "open_until": None if until is None else until.isoformat(),
    }


def _breaker_in_words(breaker: BreakerSeen) -> str:
    said = f"{breaker.state}, {breaker.failures} of {breaker.most} failures"
    if breaker.state == "open" and breaker.open_until:
        said += f", until {breaker.open_until.isoformat(sep=' ', timespec='seconds')}"
    if breaker.probe_id:
        said += f", tried by #{breaker.probe_id}"
    return f"{said}, key {on_one_line(breaker.key)}" if breaker.key else said


def _in_words(policy: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in policy.items())
