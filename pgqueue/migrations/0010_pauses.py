"""The end of a channel's pause."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0009_durable'),
    ]

    operations = [
        migrations.AddField(
            model_name='channel',
            name='paused_until',
            field=models.DateTimeField(blank=True, help_text='When the pause ends by itself. Empty: when it is resumed.', null=True, verbose_name='paused until'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('paused', True), ('paused_until', None), _connector='OR'), name='pgqueue_channel_paused_until', violation_error_message='Only a paused channel has an end of its pause.'),
        ),
        RunSQLFile('0010_pauses'),
    ]
