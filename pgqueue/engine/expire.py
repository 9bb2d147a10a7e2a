from pgqueue.database.sql_files import load
from pgqueue.engine import partitions
from pgqueue.engine.culprits import Part, apart, delete
from pgqueue.engine.values import Connection

SQL = load(__name__)

BATCH = 1000


def expire(connection: Connection, *, limit: int = BATCH) -> int:
    """End messages whose hold or expiry time is over as expired; return their number."""

    def some(part: Part) -> int:
        given = {**part._asdict(), "limit": limit}
        return len(partitions.repeat_if_missing(connection, SQL["expire"], given))

    return sum(apart(connection, "pgqueue_message", some, what="expire"))


def forget(connection: Connection, *, limit: int = BATCH) -> int:
    """Delete remembered dedupe keys whose time is over; return their number."""
    given = {"limit": limit}
    return delete(
        connection,
        "pgqueue_dedupe",
        SQL["forget"],
        SQL["over"],
        given,
        what="forget dedupe keys",
    )


def resume(connection: Connection, *, limit: int = BATCH) -> int:
    """Remove pauses of channels and tasks that are over; return their number."""
    tasks = delete(
        connection,
        "pgqueue_task_pause",
        SQL["resume_tasks"],
        SQL["tasks_over"],
        {"limit": limit},
        what="resume tasks",
    )
    if connection.execute(SQL["is_over"]).fetchone() is None:
        return tasks
    (resumed,) = connection.execute(SQL["resume"], {"limit": limit}).fetchone() or (0,)
    return int(resumed) + tasks
