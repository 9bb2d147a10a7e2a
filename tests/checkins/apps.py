"""An app that does what the guide says about check-ins."""

import os

from django.apps import AppConfig

from pgqueue.checkins import URLs, report_schedules


class Reporting(AppConfig):
    """Reports the runs of one schedule."""

    name = "tests.checkins"
    label = "reporting"

    def ready(self) -> None:
        """Begin to report."""
        report_schedules(URLs({"nightly": os.environ["CHECK_IN_URL"]}))
