"""The end of a channel's pause."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0010_run_logs'),
    ]

    operations = [
        migrations.AddField(
            model_name='channel',
            name='paused_until',
            field=models.DateTimeField(blank=True, help_text='When the pause ends by itself. Empty: when it is resumed.', null=True, verbose_name='paused until'),
        ),
        RunSQLFile('0011_back_off'),
    ]
