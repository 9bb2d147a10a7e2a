"""Weights of messages that are made of events, and of rows that Spark writes."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0015_tenant_metrics"),
    ]

    operations = [
        migrations.AddField(
            model_name="subscription",
            name="weight",
            field=models.SmallIntegerField(
                db_default=1,
                default=1,
                help_text="For how many messages each of its messages counts in limits, 1 to 100.",
                verbose_name="weight",
            ),
        ),
        migrations.AddConstraint(
            model_name="subscription",
            constraint=models.CheckConstraint(
                condition=models.Q(weight__range=(1, 100)), name="pgqueue_subscription_weight"
            ),
        ),
        migrations.AddField(
            model_name="staged",
            name="weight",
            field=models.SmallIntegerField(null=True),
        ),
        RunSQLFile("0016_more_weights"),
    ]
