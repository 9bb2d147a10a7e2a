"""The settings of the chaos tests, and a schedule."""

from tests.chaos.settings import (
    DATABASES,
    DEFAULT_AUTO_FIELD,
    INSTALLED_APPS,
    LOGGING,
    SECRET_KEY,
    TIME_ZONE,
    USE_TZ,
)
from tests.chaos.settings import PGQUEUE as OF_CHAOS

__all__ = ["DATABASES", "DEFAULT_AUTO_FIELD", "INSTALLED_APPS", "LOGGING", "SECRET_KEY"]
__all__ += ["TIME_ZONE", "USE_TZ"]

PGQUEUE = {
    **OF_CHAOS,
    "SCHEDULES": {
        "proof": {"task": "tests.proof.tasks.ticked", "when": 1, "missed": "all"},
    },
}
