import datetime
from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0004_schedules'),
    ]

    operations = [
        migrations.CreateModel(
            name='Purged',
            fields=[
                ('keep', models.DurationField(primary_key=True, serialize=False)),
                ('rules', models.TextField(help_text='A digest of how long everything is kept.')),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_purged',
            },
        ),
        migrations.AddField(
            model_name='channel',
            name='dead_retention',
            field=models.DurationField(blank=True, help_text='How long its dead letters are kept before they are discarded, if not as long as all.', null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='retention_cancelled',
            field=models.DurationField(blank=True, help_text='Of what was cancelled.', null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='retention_discarded',
            field=models.DurationField(blank=True, help_text='Of what was discarded, as dead letters are in the end.', null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='retention_expired',
            field=models.DurationField(blank=True, help_text='Of what expired.', null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='retention_succeeded',
            field=models.DurationField(blank=True, help_text='The same, of what succeeded, if not as above.', null=True),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('state', 'dead')), fields=['channel', 'claimed_at'], name='pgqueue_message_dead_since'),
        ),
        RunSQLFile('0005_retention'),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('dead_retention__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_cancelled__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_discarded__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_expired__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_succeeded__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525)))), name='pgqueue_channel_retention', violation_error_message='What is kept is kept for longer than 0, and for a hundred years at most.'),
        ),
    ]
