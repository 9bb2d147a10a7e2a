from django.db import migrations

from pgqueue.operations import TrackTable


class Migration(migrations.Migration):
    dependencies = [
        ("shop", "0002_auditentry"),
        ("pgqueue", "0005_tracking"),
    ]

    operations = [
        # Each movement is in the log, whatever has stored it.
        TrackTable("shop.StockMovement", update=False, delete=False),
    ]
