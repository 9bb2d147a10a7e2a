"""Without the admin."""

from tests.projects.base import *  # noqa: F403
from tests.projects.base import INSTALLED_APPS, MIDDLEWARE

NEEDLESS = ("admin", "messages", "staticfiles")
INSTALLED_APPS = [each for each in INSTALLED_APPS if not each.endswith(NEEDLESS)]
MIDDLEWARE = [each for each in MIDDLEWARE if "messages" not in each]
