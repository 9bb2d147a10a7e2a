"""Scenarios that end otherwise on pgqueue than on Celery, and why."""

KINDS = ("fails", "finds no file", "fails as expected", "is retried, then fails",
         "on_error of the whole")  # fmt: skip
PLACES = ("alone", "first of a chain", "in the middle of a chain", "of a header", "a body",
          "first of a chain in a header", "before a chord", "of a group")  # fmt: skip

UNENDED: dict[str, tuple[str, ...]] = {
    "the tasks of a group after one that failed have failed; there they are PENDING for ever": (
        *(f"{kind}: before a chord" for kind in KINDS),
        *(f"{kind}: before two chords" for kind in KINDS),
        "fails with an error of its own: before a chord",
        "is retried by itself, then fails: before a chord",
        "has a task_id: before a chord",
        "is replaced by one that fails: before a chord",
        "a body with an errback after one before the chord",
    ),
    "a chord fails one of whose tasks is a chord that failed; there it is PENDING for ever": (
        *(f"{kind}: of a chord in a header" for kind in KINDS),
    ),
    "what follows a revoked or expired task is revoked; there it is PENDING for ever": (
        "has expired: first of a chain",
        "has expired: in the middle of a chain",
        "has expired: first of a chain in a header",
        "has expired: before a chord",
        "revoked first of a chain",
    ),
    "a task that ignores itself is IGNORED; there it is PENDING for ever": (
        "ignores itself",
        "ignores itself in a chain",
    ),
    "that a task with ignore_result has ended is known; there it is PENDING for ever": (
        *(f"fails, and keeps no result: {place}" for place in PLACES),
        *(f"succeeds, and keeps no result: {place}" for place in PLACES),
    ),
}
"""Equal, but for what never ends on Celery."""

OTHERWISE: dict[str, tuple[str, ...]] = {
    "an errback is told the name of the body's task; there it is `celery.chain` or `unknown`": (
        "a body that is a chain with an errback",
        "a body that is a group with errbacks",
    ),
}

NEVER = {name for names in UNENDED.values() for name in names}
OTHER = {name for names in OTHERWISE.values() for name in names}
