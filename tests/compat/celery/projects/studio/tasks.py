from celery.utils.log import get_task_logger

from studio.celery import app

logger = get_task_logger(__name__)


@app.task(bind=True, name="export-channel")
def export_channel(self, channel_id=None, version=1):
    tracker = self.progress_of()
    tracker.track(50)
    return {"channel": channel_id, "version": version, "active": app.count_active() >= 0}


@app.task(bind=True)
def import_channel(self, source=None):
    raise FileNotFoundError(source)


@app.task
def tell(result, user=None):
    return [result["channel"], user]
