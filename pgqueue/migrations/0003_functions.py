"""Functions and triggers: notifications, policies, and how a message is enqueued."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ("pgqueue", "0002_storage"),
    ]

    operations = [
        RunSQLFile("0003_notifications"),
        RunSQLFile("0003_policies"),
        RunSQLFile("0003_enqueue"),
    ]
