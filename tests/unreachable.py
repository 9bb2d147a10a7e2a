"""Settings of a project that is built or developed where the queue's server can't be reached."""

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES

# Port 1 refuses connections. `default` is another database: runserver looks for migrations there.
DATABASES["queue"] = {**DATABASES["default"], "HOST": "127.0.0.1", "PORT": "1"}
DATABASES["default"] = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
PGQUEUE = {"DATABASE": "queue"}
