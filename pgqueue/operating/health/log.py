"""Checks of exports, the event log, and its readers."""

from __future__ import annotations

from operator import itemgetter

from pgqueue.conf import settings
from pgqueue.engine import event_retention, exports, health, partitions, replication
from pgqueue.events.projections import is_rebuild
from pgqueue.operating.health.judging import ExaminedQueue, Judgement, Status, status_of, worse

SHOWN = 3
"""Stopped webhooks that are named, each with its reason."""
UNFOLLOWED_WAL = 64
"""Megabytes of WAL that may be kept while no process follows: a restart takes some seconds."""
MAKE_FEED = "see pgqueue_replication --status"
DISPATCH = "the dispatch"
"""The group of the log that makes messages for subscriptions; it has no name."""


def export(queue: ExaminedQueue) -> Judgement:
    targets = exports.targets(queue.connection)
    waits = settings().export_before_drop
    if not waits and not targets:
        return Status.OK, "retention waits for none", {}
    exported = exports.passed(queue.connection)
    behind = exports.behind(queue.connection, exported)
    days = partitions.waiting(queue.connection, settings().retention, exported) if waits else []
    figures = {
        "seconds_since": {each.name: each.silent_for for each in targets},
        "behind": behind._asdict(),
        "days_kept": [str(day) for day in days],
    }
    if not targets:
        said = "there is none, so no history is removed: run pgqueue_export --to DIR"
        return Status.FAILING, said, figures
    late = [each for each in targets if each.silent_for > queue.limits.max_export]
    last = (late or targets)[0]
    said = f"{last.name}: {last.silent_for:.0f} s ago"
    if behind.messages:
        many = min(behind.messages, exports.COUNTED)
        more = "more than " if behind.messages > many else ""
        said += f"; {more}{many} messages are not exported, the first for {behind.seconds:.0f} s"
    if days:
        said += f"; days of history that are kept for it: {len(days)}"
    if late or days:
        said += f": run pgqueue_export --to {last.name}, or forget that target with --forget"
        # Without EXPORT_BEFORE_DROP, retention goes on, and the target may lack rows for good.
        return Status.FAILING if waits else Status.WARNING, said, figures
    return Status.OK, said, figures


def groups(queue: ExaminedQueue) -> Judgement:
    seen = {each.name or DISPATCH: each for each in health.groups(queue.connection)}
    options = settings()
    kept_for = event_retention.waits_for(
        queue.connection,
        keep=options.event_retention,
        max_age=options.event_max_age,
        exports_first=options.export_before_drop,
    )
    figures = {
        "groups": {name: each._asdict() for name, each in seen.items()},
        "retention_waits_for": kept_for,
    }
    behind = {
        name: each.seconds
        for name, each in seen.items()
        if each.seconds is not None and not is_rebuild(name)  # it begins with the oldest event
    }
    said, seconds = "none is behind" if seen else "there is none", 0.0
    if behind:
        name, seconds = max(behind.items(), key=itemgetter(1))
        said = (
            f"{name}: its next event has waited for {seconds:.0f} s, {seen[name].lag} from the end"
        )
    limit = queue.limits.max_lag
    status = status_of(seconds, warning=limit / 2, failing=limit)
    if stopped := [name for name, each in seen.items() if each.stopped]:
        said += f"; stopped by an event: {', '.join(stopped)}: run pgqueue_group resume"
        status = worse(status, Status.WARNING)
    if cut_off := [name for name, each in seen.items() if each.is_cut_off]:
        said += f"; events were removed before they came to them: {', '.join(cut_off)}"
        said += ": run pgqueue_group reset"
        status = Status.FAILING
    if kept_for:
        said += f"; events are kept beyond EVENT_RETENTION for {', '.join(kept_for)}"
        status = Status.FAILING
    return status, said, figures


def feed(queue: ExaminedQueue) -> Judgement:
    options, limits = settings(), queue.limits
    if not options.fed_by:
        return Status.OK, "by poll", {"feed": options.feed}
    state = replication.state(queue.connection, options.replication_slot, options.publication)
    slot = state.slot
    figures = {
        "feed": options.feed,
        "wal_level": state.wal_level,
        "has_publication": state.has_publication,
        "has_inbox": state.has_inbox,
        "seconds_waiting": state.waiting,
        "is_standby": state.is_standby,
        "slot": slot and slot._asdict(),
    }
    fault = _fault_of(state)
    if fault or slot is None:
        return Status.FAILING, f"{fault}: {MAKE_FEED}; events come by poll meanwhile", figures
    behind, kept, waited = (slot.lag or 0) / 2**20, (slot.kept or 0) / 2**20, state.waiting or 0.0
    said = f"{behind:.1f} MB of WAL behind, {kept:.1f} MB kept"
    if waited > limits.max_lag / 2:
        said += f"; an event has waited for its position for {waited:.0f} s"
    if not slot.is_active:
        said += "; nobody follows it: run pgqueue_replication; events come by poll meanwhile"
    if slot.is_endangered:
        said += "; this WAL will be removed soon: see max_slot_wal_keep_size"
    # Without a follower the WAL grows until the disk is full.
    most = limits.max_wal if slot.is_active else min(limits.max_wal, UNFOLLOWED_WAL)
    statuses = (
        status_of(waited, warning=limits.max_lag / 2, failing=limits.max_lag),
        status_of(kept, warning=limits.max_wal / 2, failing=most),
        Status.OK if slot.is_active else Status.WARNING,
        Status.FAILING if slot.is_endangered else Status.OK,
    )
    return worse(*statuses), said, figures


def _fault_of(state: replication.FeedState) -> str:
    """Return why the feed does not work; "": it works."""
    if state.wal_level != "logical":
        return f"wal_level is {state.wal_level}"
    if not state.has_publication:
        return "the publication is missing"
    if not state.has_inbox:
        return "the publication lacks the table pgqueue_event_inbox"
    if state.is_standby:
        return "synchronous_standby_names has '*', which takes the feed for a standby"
    if state.slot is None:
        return "the slot is missing"
    if not state.slot.is_ours:
        return "the slot is of another database"
    return "the slot has lost its WAL" if state.slot.is_lost else ""


def webhooks(queue: ExaminedQueue) -> Judgement:
    seen = health.webhooks(queue.connection)
    figures = {"webhooks": [each._asdict() for each in seen]}
    said = []
    if stopped := [each for each in seen if each.stopped]:
        why = "; ".join(f"{each.name}: {each.stopped}" for each in stopped[:SHOWN])
        said.append(f"{len(stopped)} stopped ({why}): resume them in the admin")
    if failing := [
        each
        for each in seen
        if not each.stopped and (each.failing_for or 0) > queue.limits.max_failing
    ]:
        first = max(failing, key=lambda each: each.failing_for or 0)
        said.append(f"{len(failing)} failing, {first.name} for {first.failing_for:.0f} s")
    return (Status.WARNING if said else Status.OK), "; ".join(said) or "none fails", figures
