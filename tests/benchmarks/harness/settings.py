"""The test project, and the benchmarks' own tasks."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as OF_THE_PROJECT

INSTALLED_APPS = [*OF_THE_PROJECT, "tests.benchmarks.harness"]
