"""Append conditions on the event log."""

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0011_back_off"),
    ]

    operations = [
        migrations.CreateModel(
            name="AppendLock",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "topic",
                        "key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("topic", models.TextField(db_collation="C")),
                ("key", models.TextField(db_collation="C")),
                (
                    "used_at",
                    models.DateTimeField(
                        db_default=pgqueue.models.fields.StatementTimestamp()
                    ),
                ),
            ],
            options={
                "db_table": "pgqueue_append_lock",
                "default_permissions": (),
            },
        ),
        RunSQLFile("0012_log_keys"),
    ]
