import json
from argparse import ArgumentParser
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from pgqueue.channels import Channel
from pgqueue.engine.operate import Operated
from pgqueue.engine.stats import Stats
from pgqueue.exceptions import PGQueueError
from pgqueue.management import arguments
from pgqueue.management.base import QueueCommand
from pgqueue.management.databases import database_of
from pgqueue.models import Policy
from pgqueue.models.channel import RETENTIONS
from pgqueue.states import Outcome

LIMITS = ("max_running", "rate", "per", "burst", "max_size", "weight")
COLUMNS = ("ready", "scheduled", "held", "running", "dead")
ABOUT = "~"
ENDED = {
    Outcome.SUCCEEDED: "succeeded",
    Outcome.CANCELLED: "was cancelled",
    Outcome.DISCARDED: "was discarded",
    Outcome.EXPIRED: "expired",
}


class Command(QueueCommand):
    help = "Look at channels, limit, pause and empty them."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")

        listing = verbs.add_parser("list", help="what each channel has.")
        showing = verbs.add_parser("show", help="what one has, and its policies.")
        for verb in (listing, showing):
            verb.add_argument("--format", choices=["text", "json"], default="text")

        count, size = arguments.whole(least=1), arguments.whole()
        seconds = arguments.seconds

        policy = verbs.add_parser("policy", help="limit the channel, each of its keys, or one.")
        policy.add_argument(
            "--key", type=arguments.key, help="only this one; in place of what holds for each."
        )
        policy.add_argument("--each-key", action="store_true")
        policy.add_argument("--max-running", type=count, metavar="N", help="at once.")
        policy.add_argument("--rate", type=float, metavar="N", help="starts in the time --per.")
        policy.add_argument("--per", type=float, metavar="S", help="seconds: 1.")
        policy.add_argument(
            "--burst", type=count, metavar="N", help="starts at once after a pause."
        )
        policy.add_argument("--max-size", type=count, metavar="N", help="that wait or run.")
        policy.add_argument("--weight", type=count, metavar="N", help="messages for each turn.")
        policy.add_argument("--remove", action="store_true", help="lift these limits.")

        retention = verbs.add_parser(
            "retention", help="say how long its history is kept; what is not named: as all."
        )
        retention.add_argument("--history", type=float, metavar="S", help="seconds: all of it.")
        for outcome in Outcome:
            retention.add_argument(
                f"--{outcome.value}", type=float, metavar="S", help=f"what {ENDED[outcome]}."
            )
        retention.add_argument("--dead", type=float, metavar="S", help="its dead letters.")

        pausing = verbs.add_parser("pause", help="have workers start none of its messages.")
        resuming = verbs.add_parser("resume", help="have them start its messages again.")
        drain = verbs.add_parser("drain", help="wait until all that can be done is done.")
        release = verbs.add_parser("release", help="drain it, and forget its configuration.")
        for verb in (drain, release):
            verb.add_argument("--timeout", type=seconds, metavar="S", help="seconds: for ever.")
        purge = verbs.add_parser("purge", help="end what waits and what is dead.")
        trim = verbs.add_parser("trim", help="end the oldest of what waits.")
        trim.add_argument("--older-than", type=seconds, metavar="S", help="seconds.")
        trim.add_argument("--keep", type=size, metavar="N", help="no more than so many.")

        cancel = verbs.add_parser("cancel", help="end messages, and ask those that run to stop.")
        replay = verbs.add_parser("replay", help="make dead letters ready.")
        discard = verbs.add_parser("discard", help="end dead letters for good.")
        for verb in (cancel, replay, discard):
            verb.add_argument("--id", type=int, action="append", default=[], dest="ids")
            verb.add_argument("--task", type=arguments.task, help="the import path of theirs.")
            verb.add_argument("--key", type=arguments.key, help="theirs.")
            verb.add_argument("--older-than", type=seconds, metavar="S", help="seconds.")

        of_one = (showing, policy, retention, pausing, resuming, drain, release, purge, trim)
        for verb in (*of_one, cancel, replay, discard):
            verb.add_argument("name", type=arguments.channel, metavar="NAME", help="the channel's.")
        for verb in verbs.choices.values():
            verb.add_argument("--database", metavar="ALIAS", help="(PGQUEUE: DATABASE).")

    def handle(self, *args: Any, verb: str, **options: Any) -> None:
        database = database_of(options["database"])
        try:
            if verb == "list":
                self._list(Channel.all_stats(database=database), options["format"])
            else:
                channel = Channel(options["name"], database=database)
                self.stdout.write(VERBS[verb](channel, options))
        except (PGQueueError, ValueError) as error:
            raise CommandError(str(error)) from error

    def _list(self, found: Mapping[str, Stats], style: str) -> None:
        if style == "json":
            self.stdout.write(json.dumps({name: _plain(each) for name, each in found.items()}))
            return
        width = max([7, *map(len, found)])
        self.stdout.write(f"{'channel':<{width}} {_row([*COLUMNS, 'oldest', 'in/s', 'out/s'])}")
        for name, each in found.items():
            self.stdout.write(f"{name:<{width}} {_row(_cells(each))}")


def _show(channel: Channel, options: Mapping[str, Any]) -> str:
    stats, policies = channel.stats(), [_said(each) for each in channel.policies()]
    kept = _kept(channel)
    if options["format"] == "json":
        seconds = {name: keep.total_seconds() for name, keep in kept.items()}
        return json.dumps({**_plain(stats), "policies": policies, **seconds})
    lines = [f"{name:>20} {value}" for name, value in zip(NAMES, _cells(stats), strict=True)]
    lines += [f"{name.replace('_', ' '):>20} {keep}" for name, keep in kept.items()]
    return "\n".join([*lines, *(f"{'policy':>20} {_in_words(each)}" for each in policies)])


def _kept(channel: Channel) -> dict[str, timedelta]:
    """Return how long the channel says that something is kept."""
    row = channel.configured()
    kept = {name: getattr(row, name) for name in RETENTIONS}
    return {name: keep for name, keep in kept.items() if keep is not None}


def _policy(channel: Channel, options: Mapping[str, Any]) -> str:
    scope = {"key": options["key"], "each_key": options["each_key"]}
    limits = {name: options[name] for name in LIMITS if options[name] is not None}
    if options["remove"]:
        if limits:
            raise CommandError(f"--remove lifts all of its limits: leave out {', '.join(limits)}.")
        return "Removed." if channel.remove_policy(**scope) else "There was none."
    channel.policy(**scope, **limits)
    return "Saved."


def _retention(channel: Channel, options: Mapping[str, Any]) -> str:
    """Save it as a whole; without a word, the channel keeps everything as all do."""
    named = {each: options[each] for each in Outcome.values if options[each] is not None}
    everything = options["history"]
    if named and everything is not None:
        named = {**dict.fromkeys(Outcome.values, everything), **named}
    channel.configure(retention=named or everything, dead_retention=options["dead"])
    return "Saved."


def _drain(channel: Channel, options: Mapping[str, Any]) -> str:
    if not channel.drain(options["timeout"]):
        raise CommandError(f"After {options['timeout']:g} s there is still something to do.")
    return "Nothing is left to do."


def _release(channel: Channel, options: Mapping[str, Any]) -> str:
    if not channel.release(options["timeout"]):
        raise CommandError(f"After {options['timeout']:g} s there is still something to do.")
    return "Released."


def _operated(done: str) -> Callable[[Operated], str]:
    def report(operated: Operated) -> str:
        parts = [f"{len(operated.done)} {done}"]
        if operated.asked:
            parts.append(f"{len(operated.asked)} running and asked to stop")
        if operated.busy:
            parts.append(f"{len(operated.busy)} locked by another transaction, to be tried again")
        return f"{', '.join(parts)}."

    return report


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: options[name] for name in ("task", "key", "older_than")}


VERBS: Mapping[str, Callable[[Channel, Mapping[str, Any]], str]] = {
    "show": _show,
    "policy": _policy,
    "retention": _retention,
    "pause": lambda channel, _: "Paused." if channel.pause() else "It was paused already.",
    "resume": lambda channel, _: "Resumed." if channel.resume() else "It was not paused.",
    "drain": _drain,
    "release": _release,
    "purge": lambda channel, _: f"{channel.purge()} discarded.",
    "trim": lambda channel, options: (
        f"{channel.trim(older_than=options['older_than'], keep=options['keep'])} discarded."
    ),
    "cancel": lambda channel, options: _operated("cancelled")(
        channel.cancel(*options["ids"], **_chosen(options))
    ),
    "replay": lambda channel, options: _operated("replayed")(
        channel.replay(*options["ids"], **_chosen(options))
    ),
    "discard": lambda channel, options: _operated("discarded")(
        channel.discard(*options["ids"], **_chosen(options))
    ),
}
NAMES = (*COLUMNS, "oldest ready", "enqueued a second", "finished a second")


def _cells(stats: Stats) -> list[str]:
    """Write what a channel has; what is an estimate with a tilde before it."""
    counts = [f"{_about(stats, name)}{getattr(stats, name)}" for name in COLUMNS]
    age = stats.oldest_ready_age
    oldest = "-" if age is None else f"{_about(stats, 'oldest_ready_age')}{_rounded(age)}"
    return [*counts, oldest, f"{stats.enqueued_per_second:.1f}", f"{stats.finished_per_second:.1f}"]


def _about(stats: Stats, name: str) -> str:
    return ABOUT if name in stats.estimated else ""


def _rounded(age: timedelta) -> timedelta:
    return timedelta(seconds=round(age.total_seconds()))


def _row(cells: list[str]) -> str:
    return " ".join(f"{cell:>10}" for cell in cells)


def _plain(stats: Stats) -> dict[str, Any]:
    age = stats.oldest_ready_age
    return {
        **asdict(stats),
        "oldest_ready_age": None if age is None else age.total_seconds(),
        "estimated": sorted(stats.estimated),
    }


def _said(policy: Policy) -> dict[str, Any]:
    """Tell a policy by its scope, and the limits that it has; `per` in seconds."""
    limits = {name: getattr(policy, name) for name in LIMITS if getattr(policy, name) is not None}
    per = {"per": policy.per.total_seconds()} if policy.rate else {}
    limits.pop("per")
    key = {"key": policy.key} if policy.key else {}
    return {"scope": policy.scope, **key, **limits, **per}


def _in_words(policy: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in policy.items())
