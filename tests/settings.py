"""The test project's settings, and what only tests need."""

from testproject.settings import *  # noqa: F403
from testproject.settings import DATABASES, env

DEBUG = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

# A second database, for everything that must not assume `default`.
DATABASES["second"] = {**DATABASES["default"], "NAME": DATABASES["default"]["NAME"] + "_second"}

# What tests tell the workers that they start, through the environment.
PGQUEUE = {
    name: env.float(f"PGQUEUE_{name}")
    for name in ("LEASE", "POLL_INTERVAL", "GRACE")
    if f"PGQUEUE_{name}" in env
}
DATABASES["default"]["CONN_MAX_AGE"] = env.int("CONN_MAX_AGE", default=0)
