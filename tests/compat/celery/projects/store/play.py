from datetime import UTC, datetime

from store.celeryconf import app
from store.schedules import looked
from store.tasks import capture, observe, send_webhook


def play():
    found = [
        capture.delay(10, currency="PLN").get(timeout=60),
        app.send_task("store.capture", args=[7]).get(timeout=60),
        send_webhook.apply_async(kwargs={"delivery_id": 3}, queue="webhooks").get(timeout=60),
        observe.delay(1).get(timeout=60),
        app.tasks["store.capture"].name,
        capture(3),
    ]
    return [*found, looked(datetime(2030, 1, 1, tzinfo=UTC))]
