"""End quietly where Spark has read enough, such as for `show()` and `limit()`.

Spark then closes the socket of the Python process that reads. PySpark's daemon fails to flush the
rest of the rows, prints a traceback of a BrokenPipeError to stderr, and ends the process. Nothing
is wrong.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

_DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Keep PySpark's daemon from printing a traceback in this process if Spark hangs up.

    Only a process that the daemon has forked is changed, and of it only the daemon's own module:
    errors of tasks go to Spark by another way.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == _DAEMON:
        vars(main)["traceback"] = SimpleNamespace(
            print_exc=_print_exc, format_exc=traceback.format_exc
        )


def _print_exc() -> None:
    if not isinstance(sys.exc_info()[1], ConnectionError):
        traceback.print_exc()
