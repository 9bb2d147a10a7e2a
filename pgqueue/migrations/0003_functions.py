"""Functions and triggers: notifications, lanes, how messages are enqueued and ended."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0002_storage'),
    ]

    operations = [
        RunSQLFile('0003_arguments'),
        RunSQLFile('0003_notifications'),
        RunSQLFile('0003_lanes'),
        RunSQLFile('0003_enqueue'),
        RunSQLFile('0003_flows'),
        RunSQLFile('0003_ends'),
    ]
