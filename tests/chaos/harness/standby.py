"""A standby of a primary, which the primary's commits wait for, or not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.chaos.harness.server import Server, home, run
from tests.eventually import eventually

SYNCHRONOUS = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"


@contextmanager
def trailing(primary: Server, name: str = "standby") -> Iterator[Server]:
    """Start a replica that no commit waits for; it is gone at the end, also as the primary."""
    with home(name) as folder:
        follower = Server(folder)
        source = ["-h", primary.home, "-p", primary.port, "-U", "postgres"]
        run(
            "pg_basebackup", *source, "-D", follower.data,
            "-R", "-X", "stream", "-C", "-S", name, "-c", "fast", "--no-sync",
        )  # fmt: skip
        follower.start()
        try:
            yield follower
        finally:
            follower.stop("immediate")


@contextmanager
def following(primary: Server, name: str = "standby") -> Iterator[Server]:
    """Start a synchronous replica, as `trailing` does: every commit of the primary waits for it."""
    with trailing(primary, name) as follower:
        with primary.connect() as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            connection.execute("SELECT pg_reload_conf()")
            eventually(
                lambda: connection.execute(SYNCHRONOUS).fetchone() == (1,),
                what="the standby is synchronous",
            )
        yield follower
