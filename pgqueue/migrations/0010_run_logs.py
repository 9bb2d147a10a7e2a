"""The log lines of runs."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0009_durable"),
    ]

    operations = [
        migrations.CreateModel(
            name="RunLog",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "message_id",
                        "attempt",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("message_id", models.BigIntegerField()),
                ("attempt", models.IntegerField()),
                (
                    "lines",
                    models.JSONField(
                        help_text="A list of lines, or an envelope if they are encrypted."
                    ),
                ),
            ],
            options={
                "db_table": "pgqueue_run_log",
                "default_permissions": (),
            },
        ),
        RunSQLFile("0010_run_logs"),
    ]
