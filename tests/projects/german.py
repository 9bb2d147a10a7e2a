"""In German, with numbers grouped as there."""

from tests.projects.base import *  # noqa: F403

LANGUAGE_CODE = "de"
USE_THOUSAND_SEPARATOR = True
TIME_ZONE = "Europe/Berlin"
