"""Make schema.sql anew: `python -m tests.upgrade.make`, with git and Debian's PostgreSQL 15.

The oldest PostgreSQL makes the dump, since newer ones read it, and INSERTs, since psycopg can
run these.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.upgrade import first

OURS = Path(__file__).parent
DUMP = OURS / "schema.sql"
NOISE = re.compile(r"^(--.*|\\.*|)\n", re.M)


def main() -> None:
    """Become a process that has a server, then make the dump."""
    if "DATABASE_URL" not in os.environ:
        server = ["-m", "pgqueue.embedded", "--version", "15", "--throwaway", "--"]
        os.execv(  # noqa: S606
            sys.executable, [sys.executable, *server, sys.executable, "-m", "tests.upgrade.make"]
        )
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder))
    DUMP.write_text(dumped())


def fill(folder: Path) -> None:
    """Run `fill.py` in a checkout of the first version."""
    first.check_out(folder)
    shutil.copytree(OURS, folder / "tests" / "upgrade", dirs_exist_ok=True)
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.upgrade.settings",
        "PYTHONPATH": str(folder),
    }
    subprocess.run(
        [sys.executable, "-m", "tests.upgrade.fill"], cwd=folder, env=environment, check=True
    )


def dumped() -> str:
    """Return the database as SQL, without comments and what only psql knows."""
    dump = ["/usr/lib/postgresql/15/bin/pg_dump", "--inserts", "--no-owner", "--no-privileges"]
    user, host, name = re.fullmatch(  # as pgqueue.embedded writes it
        r"postgresql://(.*)@:\d+/(.*)/(.*)", os.environ["DATABASE_URL"]
    ).groups()  # type: ignore[union-attr]
    port = re.search(r":(\d+)/", os.environ["DATABASE_URL"])[1]  # type: ignore[index]
    address = ["--username", user, "--host", host, "--port", port, name]
    said = subprocess.run([*dump, *address], check=True, capture_output=True, text=True).stdout
    return NOISE.sub("", said)


if __name__ == "__main__":
    main()
