"""Events by which a test and the import of `tests.late_slowly` wait for each other."""

from __future__ import annotations

import threading

entered = threading.Event()
opened = threading.Event()
