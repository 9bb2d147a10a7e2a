"""Messages with weights: limits count a message as several."""

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
        RunSQLFile("0013_weights"),
    ]
