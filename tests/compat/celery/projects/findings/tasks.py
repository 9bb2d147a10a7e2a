from celery import chord, group
from celery.exceptions import SoftTimeLimitExceeded
from celery.utils.log import get_task_logger

from findings.celery import app

logger = get_task_logger(__name__)


@app.task(bind=True)
def deduplicate(self, finding_id, *, product=None):
    return [finding_id, product, self.request.headers.get("findings_user")
            if self.request.headers else self.request.get("findings_user")]  # fmt: skip


@app.task(soft_time_limit=30)
def grade(values):
    try:
        return sum(values)
    except SoftTimeLimitExceeded:
        return None


@app.task
def score(finding_id):
    return finding_id * 10


@app.task(bind=True)
def close_all(self, ids):
    return self.replace(chord(group(score.s(each) for each in ids), grade.s()))


@app.task(throws=(ValueError,))
def push_to_jira(finding_id):
    raise ValueError(f"finding {finding_id}")


@app.task
def alert(request, exc, traceback):
    logger.error("%s", exc)
