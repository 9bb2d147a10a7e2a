"""The options of writes, checked before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pgqueue.arrow.errors import InvalidOption
from pgqueue.arrow.urls import DEFAULT
from pgqueue.engine.operate import VERBS
from pgqueue.exceptions import InvalidEvent
from pgqueue.options.filters import as_topic
from pgqueue.spark.written import as_task
from pgqueue.values.error_words import hint, shown
from pgqueue.values.names import as_channel, as_key

ENQUEUE = "enqueue"
PUBLISH = "publish"
OPERATIONS = (ENQUEUE, PUBLISH, *VERBS)
OF_ROWS = ("task", "channel", "topic")
"""The options that give the value of a missing or empty column of the same name."""
TAKES = {ENQUEUE: ("task", "channel"), PUBLISH: ("topic",)}
"""The options of these that an operation takes."""
OF_EVERY_WRITE = ("url", "operation", *OF_ROWS, "txnAppId")
OF_BATCHES = ("txnVersion",)
OF_STREAMS = ("checkpointLocation", "queryName")
"""Spark's own options, which Spark passes on."""


@dataclass(frozen=True, kw_only=True)
class WriteOptions:
    """The options of a write.

    Attributes:
        url: see `urls.resolve`.
        operation: `ENQUEUE`, `PUBLISH`, or the verb that is applied to the rows' ids.
        task: The task of a row that names none; None: these rows are raw messages.
        channel: The channel of a row that names none; None: the default.
        topic: The topic of an event that names none; None: each event names its topic.
        app_id: The application id of the write's version; None: the write has no version.
        version: The version of a single write.
        origin: The checkpoint of a stream.
    """

    url: str
    operation: str = ENQUEUE
    task: str | None = None
    channel: str | None = None
    topic: str | None = None
    app_id: str | None = None
    version: int | None = None
    origin: str = ""


def write_options(
    given: Mapping[str, str], *, is_stream: bool, overwrites: bool = False
) -> WriteOptions:
    """Return the checked options of `write.format("pgqueue")`, or of `writeStream`.

    Raises:
        InvalidOption: a name is unknown, a value is invalid, or a value is missing.
    """
    if overwrites:
        raise InvalidOption("A write only adds messages: use mode('append').")
    options = _named(given, is_stream=is_stream)
    operation = options.get("operation", ENQUEUE)
    if operation not in OPERATIONS:
        raise InvalidOption(
            f"There is no operation {shown(operation)}. {hint(operation, OPERATIONS)}"
        )
    not_taken = [name for name in OF_ROWS if name not in TAKES.get(operation, ())]
    if options.keys() & {*not_taken}:
        raise InvalidOption(f"The operation {operation} takes no {' and no '.join(not_taken)}.")
    app_id = options.get("txnAppId")
    if is_stream and app_id is None:
        raise InvalidOption(
            "A stream needs the option txnAppId, a name of its own. With this name and the "
            "batch's number, no batch is committed twice."
        )
    if not is_stream and (app_id is None) != ("txnVersion" not in options):
        raise InvalidOption("Give txnAppId and txnVersion, or none of the two.")
    return WriteOptions(
        url=options.get("url", DEFAULT),
        operation=operation,
        task=_name("task", options, as_task),
        channel=_name("channel", options, as_channel),
        topic=_name("topic", options, as_topic),
        app_id=_name("txnAppId", options, as_key),
        version=_version(options),
        origin=options.get("checkpointLocation", ""),
    )


def _name(name: str, options: Mapping[str, str], check: Callable[[str], str]) -> str | None:
    if name not in options:
        return None
    try:
        if not options[name]:
            raise ValueError("it must be a name.")
        return check(options[name])
    except (ValueError, InvalidEvent) as error:
        raise InvalidOption(f"The option {name} is {shown(options[name])}: {error}") from None


def _named(given: Mapping[str, str], *, is_stream: bool) -> dict[str, str]:
    """Return the options by their documented names: Spark passes the names in lower case."""
    known = (*OF_EVERY_WRITE, *(OF_STREAMS if is_stream else OF_BATCHES))
    names = {name.lower(): name for name in known}
    options = {}
    for name, value in given.items():
        if name.lower() == "path":
            raise InvalidOption("A write takes no path: call save() or start() without one.")
        if name.lower() not in names:
            raise InvalidOption(
                f"A {'stream' if is_stream else 'write'} has no option {shown(name)}. "
                f"{hint(name, known)}"
            )
        options[names[name.lower()]] = value
    return options


def _version(options: Mapping[str, str]) -> int | None:
    if "txnVersion" not in options:
        return None
    text = options["txnVersion"]
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InvalidOption(
            f"The option txnVersion is {shown(text)}; it must be a whole number from 0 up."
        )
    return int(text)
