"""Counts of runs, by channel and task."""

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0005_tracking'),
    ]

    operations = [
        migrations.CreateModel(
            name='Tally',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('channel', models.TextField(db_collation='C')),
                ('task', models.TextField(db_collation='C')),
                ('succeeded', models.BigIntegerField()),
                ('failed', models.BigIntegerField(help_text='Runs that raised, and are tried again.')),
                ('dead', models.BigIntegerField(help_text='Runs that raised, and were the last of their message.')),
                ('deferred', models.BigIntegerField()),
                ('discarded', models.BigIntegerField()),
                ('cancelled', models.BigIntegerField()),
                ('lost', models.BigIntegerField(db_default=0, help_text='Runs whose worker died.')),
                ('released', models.BigIntegerField(db_default=0, help_text='Runs that were handed back.')),
                ('waited', models.FloatField(help_text='Seconds from when messages were due to their starts.')),
                ('ran', models.FloatField(help_text='Seconds of all runs together.')),
                ('waits', pgqueue.models.fields.BucketsField(help_text='How many waited for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
                ('runs', pgqueue.models.fields.BucketsField(help_text='How many ran for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
            ],
            options={
                'db_table': 'pgqueue_tally',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='TallyBatch',
            fields=[
                ('source', models.UUIDField(primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_tally_batch',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Statistic',
            fields=[
                ('pk', models.CompositePrimaryKey('period', 'at', 'channel', 'task', blank=True, editable=False, primary_key=True, serialize=False)),
                ('period', models.TextField(help_text='minute or hour')),
                ('at', models.DateTimeField(help_text='When the period begins.')),
                ('channel', models.TextField(db_collation='C')),
                ('task', models.TextField(db_collation='C')),
                ('succeeded', models.BigIntegerField()),
                ('failed', models.BigIntegerField(help_text='Runs that raised, and are tried again.')),
                ('dead', models.BigIntegerField(help_text='Runs that raised, and were the last of their message.')),
                ('deferred', models.BigIntegerField()),
                ('discarded', models.BigIntegerField()),
                ('cancelled', models.BigIntegerField()),
                ('lost', models.BigIntegerField(db_default=0, help_text='Runs whose worker died.')),
                ('released', models.BigIntegerField(db_default=0, help_text='Runs that were handed back.')),
                ('waited', models.FloatField(help_text='Seconds from when messages were due to their starts.')),
                ('ran', models.FloatField(help_text='Seconds of all runs together.')),
                ('waits', pgqueue.models.fields.BucketsField(help_text='How many waited for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
                ('runs', pgqueue.models.fields.BucketsField(help_text='How many ran for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
            ],
            options={
                'db_table': 'pgqueue_statistic',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Total',
            fields=[
                ('pk', models.CompositePrimaryKey('channel', 'task', blank=True, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('task', models.TextField(db_collation='C')),
                ('counted_at', models.DateTimeField(help_text='The last time that something was added.')),
                ('succeeded', models.BigIntegerField()),
                ('failed', models.BigIntegerField(help_text='Runs that raised, and are tried again.')),
                ('dead', models.BigIntegerField(help_text='Runs that raised, and were the last of their message.')),
                ('deferred', models.BigIntegerField()),
                ('discarded', models.BigIntegerField()),
                ('cancelled', models.BigIntegerField()),
                ('lost', models.BigIntegerField(db_default=0, help_text='Runs whose worker died.')),
                ('released', models.BigIntegerField(db_default=0, help_text='Runs that were handed back.')),
                ('waited', models.FloatField(help_text='Seconds from when messages were due to their starts.')),
                ('ran', models.FloatField(help_text='Seconds of all runs together.')),
                ('waits', pgqueue.models.fields.BucketsField(help_text='How many waited for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
                ('runs', pgqueue.models.fields.BucketsField(help_text='How many ran for up to 1 ms, 2 ms, 4 ms, …; the rest.')),
            ],
            options={
                'db_table': 'pgqueue_total',
                'default_permissions': (),
            },
        ),
        RunSQLFile('0006_statistics'),
    ]
