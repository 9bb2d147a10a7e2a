"""End quietly if Spark stops reading early, such as for `show()` and `limit()`.

Spark then closes the socket of the Python process that reads. PySpark's daemon fails to flush the
rest of the rows, prints a traceback of a BrokenPipeError to stderr, and ends the process. The read
was a success.
"""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

_DAEMON = "pyspark.daemon"


def end_quietly() -> None:
    """Keep PySpark's daemon from printing a traceback if Spark closes the socket.

    The function changes only the daemon's module, in a process that the daemon has forked. Errors
    of tasks reach Spark by another way.
    """
    main = sys.modules["__main__"]
    if getattr(main.__spec__, "name", None) == _DAEMON:
        vars(main)["traceback"] = SimpleNamespace(
            print_exc=_print_exc, format_exc=traceback.format_exc
        )


def _print_exc() -> None:
    if not isinstance(sys.exc_info()[1], ConnectionError):
        traceback.print_exc()
