from datetime import datetime, timedelta

from celery.schedules import BaseSchedule, schedule
from celery.utils.time import maybe_timedelta, remaining


class promotions(BaseSchedule):
    """Due again after some seconds."""

    def __init__(self, seconds, nowfun=None, app=None):
        self.every = maybe_timedelta(seconds)
        super().__init__(nowfun=nowfun, app=app)

    def remaining_estimate(self, last_run_at):
        return remaining(last_run_at, self.every, self.now())

    def is_due(self, last_run_at):
        left = self.remaining_estimate(last_run_at).total_seconds()
        return left <= 0, max(left, 0)


def looked(now):
    then = now - timedelta(seconds=20)
    mine = promotions(30, nowfun=lambda: now)
    theirs = schedule(30.0, nowfun=lambda: now)
    return [list(mine.is_due(then)), isinstance(theirs, BaseSchedule), isinstance(now, datetime)]
