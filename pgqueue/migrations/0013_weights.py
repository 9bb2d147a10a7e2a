"""Messages with weights, which limits count as several, and urgent messages, which pass over turns."""

from datetime import timedelta

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0012_log_keys"),
    ]

    operations = [
        migrations.AddField(
            model_name="lane",
            name="heaviest",
            field=models.SmallIntegerField(
                db_default=1,
                help_text="The greatest weight of its last claim: its rate may be late by so many starts.",
            ),
        ),
        migrations.AddField(
            model_name="gate",
            name="heaviest",
            field=models.SmallIntegerField(
                db_default=1, help_text="The greatest weight of its last claim, as a lane's."
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="urgent_first",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Messages of priority 50 and more pass over the turns of keys. Needs a policy.",
                verbose_name="urgent first",
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="age_after",
            field=models.DurationField(
                blank=True,
                help_text="A message that has waited for so long passes over the turns of keys, too. Empty: never. Needs a policy.",
                null=True,
                verbose_name="age after",
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(age_after__range=(timedelta(microseconds=1), timedelta(days=36525))),
                name="pgqueue_channel_age_after",
                violation_error_message="age_after must be longer than 0, and a hundred years at most.",
            ),
        ),
        migrations.AddField(
            model_name="lane",
            name="urgent_at",
            field=models.DateTimeField(
                help_text="From when on it has urgent messages, which pass over turns.", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="lane",
            index=models.Index(
                condition=models.Q(state="runnable", urgent_at__isnull=False),
                fields=["channel", "urgent_at"],
                name="pgqueue_lane_urgent",
            ),
        ),
        RunSQLFile("0013_weights"),
    ]
