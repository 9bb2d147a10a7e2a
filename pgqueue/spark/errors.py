"""The errors of Spark alone; `pgqueue.arrow.errors` has the errors of every read and export.

Spark shows an error of a Python data source inside its own, after a traceback. So each error names
in one line its option or table, and the remedy.
"""

import re

from pgqueue.arrow.errors import PipelineError

_OURS = re.compile(
    r"^(?:pgqueue\.(?:arrow\.errors|spark\.errors|exceptions)|psycopg(?:\.errors)?)\.\w+: (.+)",
    re.MULTILINE,
)
_PYTHONS = re.compile(r"^[\w.]*(?:Error|Exception|Exit): .+", re.MULTILINE)
_FILES = re.compile(r"\[FAILED_READ_FILE\.\w+\] [^\n]* file (\S+?)\.? ")
_CAUSES = re.compile(r"^Caused by: [\w.$]+: ((?:.|\n(?!\tat|\t\.\.\.|Caused by))+)", re.MULTILINE)
_JAVAS = re.compile(r"^: [\w.]+: (.+)", re.MULTILINE)


class InvalidColumn(PipelineError):
    """A written DataFrame has an unknown column, or a column of another type."""


class InvalidRow(PipelineError):
    """A row is no valid message; the write stored nothing."""


class InvalidSource(PipelineError):
    """The source of the rows is invalid, or its options do not fit."""


class NoExport(PipelineError):
    """The folder has no export."""


class ClusterLost(PipelineError):
    """The session of Spark in which workers ran has ended."""


class CompactionFailed(PipelineError):
    """The rows of a day could not be put into fewer files."""


class NoJava(PipelineError):
    """Spark needs Java 17 or newer, which is missing."""


def reason(error: BaseException | str) -> str:
    """Return in one line the cause that an error of pgqueue or Spark names."""
    text = str(error)
    if (file := _FILES.search(text)) and (causes := _CAUSES.findall(text)):
        return f"{file[1]}: {' '.join(causes[-1].split())}"
    found = _OURS.findall(text) or _PYTHONS.findall(text)[-1:] or _JAVAS.findall(text)
    return str(found[0] if found else text.strip().partition("\n")[0])
