"""Without users."""

from tests.projects.base import *  # noqa: F403
from tests.projects.no_admin import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = [each for each in INSTALLED_APPS if not each.endswith(("auth", "sessions"))]
MIDDLEWARE = [each for each in MIDDLEWARE if "auth" not in each and "sessions" not in each]
TEMPLATES = []
