"""Durable runs that have begun keep their arguments, and leave nothing behind in full channels."""

from django.db import migrations

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0018_truncation"),
    ]

    operations = [
        RunSQLFile("0019_begun_runs"),
    ]
