"""Circuit breakers: three columns of policies, and a table of failures."""

from datetime import timedelta

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile

COLUMNS = ("breaker_failures", "breaker_pause", "breaker_within")


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0016_more_weights"),
    ]

    operations = [
        migrations.CreateModel(
            name="Breaker",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "channel", "key", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("channel", models.TextField(db_collation="C")),
                (
                    "key",
                    models.TextField(
                        db_collation="C",
                        help_text="The key; empty: the breaker of the channel as a whole.",
                    ),
                ),
                (
                    "failed_at",
                    pgqueue.models.fields.InstantsField(help_text="When its last runs failed."),
                ),
                (
                    "open_until",
                    models.DateTimeField(
                        help_text="Before this time no message starts, and then one. Empty: it is closed.",
                        null=True,
                    ),
                ),
                (
                    "probe_id",
                    models.BigIntegerField(
                        help_text="The message that was let through to try it.", null=True
                    ),
                ),
                (
                    "probe_attempt",
                    models.IntegerField(help_text="The attempt of this message.", null=True),
                ),
            ],
            options={"db_table": "pgqueue_breaker", "default_permissions": ()},
        ),
        migrations.AddIndex(
            model_name="breaker",
            index=models.Index(
                condition=models.Q(probe_id__isnull=False),
                fields=["probe_id"],
                name="pgqueue_breaker_probed",
            ),
        ),
        migrations.AddIndex(
            model_name="breaker",
            index=models.Index(
                condition=models.Q(open_until__isnull=False),
                fields=["open_until"],
                name="pgqueue_breaker_open",
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="breaker_failures",
            field=models.SmallIntegerField(
                blank=True,
                help_text="Failed runs that open the circuit breaker. It needs the two times below.",
                null=True,
                verbose_name="breaker: failures",
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="breaker_within",
            field=models.DurationField(
                blank=True,
                help_text="The time in which so many runs must fail: 00:01:00.",
                null=True,
                verbose_name="breaker: within",
            ),
        ),
        migrations.AddField(
            model_name="policy",
            name="breaker_pause",
            field=models.DurationField(
                blank=True,
                help_text="The time for which no message starts. Then one message is tried.",
                null=True,
                verbose_name="breaker: pause",
            ),
        ),
        # PostgreSQL before 17 changes no expression of a generated column: the column is made again.
        migrations.RemoveField(model_name="policy", name="governs"),
        migrations.AddField(
            model_name="policy",
            name="governs",
            field=models.GeneratedField(
                db_persist=True,
                expression=models.ExpressionWrapper(
                    models.Q(max_running__isnull=False)
                    | models.Q(rate__isnull=False)
                    | models.Q(weight__isnull=False)
                    | models.Q(breaker_failures__isnull=False),
                    output_field=models.BooleanField(),
                ),
                help_text="Whether claims have to look at it.",
                output_field=models.BooleanField(),
            ),
        ),
        migrations.AddIndex(
            model_name="policy",
            index=models.Index(
                condition=models.Q(breaker_failures__isnull=False),
                fields=["channel"],
                name="pgqueue_policy_breaking",
            ),
        ),
        migrations.AddConstraint(
            model_name="policy",
            constraint=models.CheckConstraint(
                condition=models.Q(**{f"{name}__isnull": True for name in COLUMNS})
                | models.Q(
                    **{f"{name}__isnull": False for name in COLUMNS},
                    breaker_failures__range=(1, 1000),
                    breaker_pause__gt=timedelta(),
                    breaker_pause__lte=timedelta(days=366),
                    breaker_within__gt=timedelta(),
                    breaker_within__lte=timedelta(days=366),
                ),
                name="pgqueue_policy_breaker",
                violation_error_message="A breaker needs 1 to 1000 failures, and two times: longer than 0, and a year at most.",
            ),
        ),
        RunSQLFile("0017_breakers"),
    ]
