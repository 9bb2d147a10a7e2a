"""Counts of runs by tenant."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):
    dependencies = [
        ("pgqueue", "0014_jit"),
    ]

    operations = [
        migrations.CreateModel(
            name="TenantTotal",
            fields=[
                ("tenant", models.TextField(db_collation="C", primary_key=True, serialize=False)),
                (
                    "counted_at",
                    models.DateTimeField(help_text="The last time that something was added."),
                ),
                ("succeeded", models.BigIntegerField()),
                ("failed", models.BigIntegerField()),
                ("dead", models.BigIntegerField()),
                ("deferred", models.BigIntegerField()),
                ("discarded", models.BigIntegerField()),
                ("cancelled", models.BigIntegerField()),
            ],
            options={
                "db_table": "pgqueue_tenant_total",
                "default_permissions": (),
            },
        ),
        migrations.AddField(
            model_name="tally",
            name="tenant",
            field=models.TextField(
                db_collation="C", db_default="", help_text="Empty without TENANT_METRICS."
            ),
        ),
        RunSQLFile("0015_tenant_metrics"),
    ]
