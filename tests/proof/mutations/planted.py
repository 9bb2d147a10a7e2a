"""The planted faults."""

from __future__ import annotations

from tests.proof.mutations import Mutation

KILLS = ("lose_a_machine", "kill_a_process")

PLANTED = [
    Mutation(
        "no fence",
        "A settle writes the end of a message whose lease another run has.",
        ("lost",),
        "pgqueue/engine/settle.sql",
        "WHERE m.id = e.message AND m.attempt = e.fence AND m.worker_id = e.holder",
        "WHERE m.id = e.message",
        ("wake_a_zombie",),
    ),
    Mutation(
        "failed effects stay",
        "An atomic task that fails does not roll back its effects.",
        ("exactly once",),
        "pgqueue/worker/atomic.py",
        "with transaction.atomic(using=self.alias):\n                ending = self.call()",
        "if True:\n                ending = self.call()",
    ),
    Mutation(
        "claim without a lock",
        "Two claims at once take the same messages.",
        ("repeated",),
        "pgqueue/engine/claim.sql",
        "FOR NO KEY UPDATE SKIP LOCKED) head",
        ") head",
    ),
    Mutation(
        "gate without a lock",
        "Two claims at once count the running messages of a channel.",
        ("limit", "rate"),
        "pgqueue/engine/claim_governed.sql",
        "FOR NO KEY UPDATE SKIP LOCKED) gate ON true",
        ") gate ON true",
    ),
    Mutation(
        "one too many",
        "A key has room for one message more than its limit.",
        ("limit",),
        "pgqueue/engine/claim_governed.sql",
        "coalesce(max_running - running, 1000000)",
        "coalesce(max_running - running + 1, 1000000)",
    ),
    Mutation(
        "too fast",
        "A rate allows a larger burst than its policy.",
        ("rate",),
        "pgqueue/engine/claim_governed.sql",
        "(burst - 1) * gap - greatest(tat, now)",
        "(burst + 3) * gap - greatest(tat, now)",
    ),
    Mutation(
        "lane without a lock",
        "Two producers of a lane take their ids at once.",
        ("lane order",),
        "function pgqueue_keep_order_v1",
        "IF NOT pg_try_advisory_xact_lock(lock) THEN",
        "IF false THEN",
    ),
    Mutation(
        "lane passes a retry",
        "A lane goes on behind a message that waits for its retry.",
        ("lane order",),
        "pgqueue/engine/shared.sql",
        "AND m.state IN ('held', 'scheduled', 'ready', 'running')\n    ORDER BY m.id LIMIT 1) f",
        "AND m.state IN ('held', 'ready', 'running')\n    ORDER BY m.id LIMIT 1) f",
    ),
    Mutation(
        "no bell",
        "The end of a run does not tell the router that there is room.",
        ("lost",),
        "pgqueue/engine/shared.sql",
        "WHERE governed OR channel IN (SELECT channel FROM pgqueue_policy WHERE governs)\n"
        "       -- The REPEATABLE READ",
        "WHERE false\n       -- The REPEATABLE READ",
    ),
    Mutation(
        "lease for ever",
        "Nobody takes away a message whose run had started when its worker died.",
        ("lease", "lost"),
        "pgqueue/engine/lease.sql",
        "AND suspected)) AND m.id = counted.id",
        "AND suspected)) AND m.id = counted.id AND false",
        KILLS,
    ),
    Mutation(
        "one loss too many",
        "A message whose worker dies once is dead.",
        ("lost",),
        "pgqueue/engine/lease.sql",
        "WHEN counted.lost >= %(max_lost)s - 1 THEN",
        "WHEN counted.lost >= %(max_lost)s * 0 THEN",
        KILLS,
    ),
    Mutation(
        "charged twice",
        "A failure counts as two.",
        ("counters",),
        "pgqueue/engine/settle.sql",
        "ELSE failures END, 2147483646) + 1,",
        "ELSE failures END, 2147483645) + 2,",
    ),
    Mutation(
        "event outside of the transaction",
        "An event is published at once, whatever becomes of the transaction.",
        ("event",),
        "pgqueue/events/publishing.py",
        "            engine.publish(self.cursors, _carrying(event, sending))",
        "            django = connections[self.alias]\n"
        "            with django.get_new_connection(django.get_connection_params()) as own:\n"
        "                engine.publish(Tuples(own), _carrying(event, sending))",
    ),
    Mutation(
        "positions with gaps",
        "An event's position is its number in the inbox, which rollbacks use up.",
        ("position",),
        "pgqueue/engine/sequence.sql",
        "head.position + row_number() OVER (ORDER BY moved.id)",
        "moved.id",
    ),
    Mutation(
        "condition without a lock",
        "Two publishers look at once for other events.",
        ("condition",),
        "function pgqueue_unmet_condition_v1",
        "DO UPDATE SET used_at = excluded.used_at",
        "DO NOTHING",
    ),
    Mutation(
        "cursor on its own",
        "A group's handler commits before the cursor moves.",
        ("group",),
        "pgqueue/events/consuming.py",
        "        with transaction.atomic(using=django.alias, durable=True):\n"
        "            self._consumer.handle(events)\n",
        "        self._consumer.handle(events)\n"
        "        with transaction.atomic(using=django.alias, durable=True):\n",
        ("kill_a_reader", "terminate_all_backends", "reset_connections"),
    ),
    Mutation(
        "step is forgotten",
        "The end of an atomic step is not stored.",
        ("durable step",),
        "pgqueue/durable/trying.py",
        "                return _store(run, place, step, value, result, began)\n"
        "        except Exception as error:\n            if not is_conflict",
        "                return value\n"
        "        except Exception as error:\n            if not is_conflict",
        KILLS,
    ),
    Mutation(
        "child runs early",
        "A child of a flow waits for one parent only.",
        ("flow",),
        "pgqueue/engine/flows.sql",
        "SELECT message_id FROM looked\n    WHERE parent_id IS NULL",
        "SELECT message_id FROM looked\n    WHERE true",
    ),
    Mutation(
        "tick is left out",
        "A schedule moves on by one tick too many.",
        ("tick",),
        "pgqueue/engine/schedule.sql",
        "SET next_at = %(next_at)s,",
        "SET next_at = %(next_at)s + interval '1 second',",
    ),
    Mutation(
        "group is idle",
        "The readers of a group never handle an event.",
        ("group",),
        "pgqueue/events/consuming.py",
        "has_moved = self._serve_each(connection)",
        "has_moved = False",
    ),
    Mutation(
        "schedule stops",
        "A schedule plans its first tick, and never has one.",
        ("tick",),
        "pgqueue/engine/schedule.sql",
        "WHERE (next_at IS NULL OR next_at <= statement_timestamp()) AND",
        "WHERE next_at IS NULL AND",
    ),
    Mutation(
        "reads see nothing",
        "A read of the log returns no events.",
        ("blind",),
        "pgqueue/events/reading.py",
        "events += map(RecordedEvent.of, stretch.events)",
        "events += ()",
    ),
]
