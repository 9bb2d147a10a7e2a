"""The event log, its readers and groups."""

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0004_pipeline'),
    ]

    operations = [
        migrations.CreateModel(
            name='Cursor',
            fields=[
                ('pk', models.CompositePrimaryKey('group', 'partition', blank=True, editable=False, primary_key=True, serialize=False)),
                ('group', models.TextField(db_collation='C')),
                ('partition', models.IntegerField()),
                ('position', models.BigIntegerField(help_text='The last event that was handled.')),
                ('reader_id', models.UUIDField(null=True)),
                ('lease_until', models.DateTimeField(null=True)),
                ('failures', models.IntegerField(db_default=0, help_text='Of the next event, so far.')),
                ('error', models.TextField(db_default='', help_text='The last of them.')),
                ('retry_at', models.DateTimeField(help_text='When the next event is tried again.', null=True)),
                ('is_stopped', models.BooleanField(db_default=False, help_text='An event failed for good: an operator resumes the group.')),
                ('updated_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_cursor',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Reader',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('host', models.TextField()),
                ('pid', models.IntegerField()),
                ('group', models.TextField(db_collation='C', help_text='The group that it reads for; null: it only waits.', null=True)),
                ('last_seen', models.DateTimeField()),
                ('notify_until', models.DateTimeField(help_text='Until then it is idle, and is notified of new events.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_reader',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='EventInbox',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('topic', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C', db_default='')),
                ('payload', models.JSONField(null=True)),
                ('metadata', models.JSONField(db_default={})),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_event_inbox',
                'default_permissions': (),
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('topic', ''), _negated=True), name='pgqueue_event_inbox_topic'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Group',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('partitions', models.IntegerField(db_default=1, default=1)),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_group',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('partitions__range', (1, 1024))), name='pgqueue_group_partitions', violation_error_message='A group has 1 to 1024 partitions.'),
                ],
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[RunSQLFile('0005_events')],
            state_operations=[
                migrations.CreateModel(
                    name='Event',
                    fields=[
                        ('position', models.BigIntegerField(primary_key=True, serialize=False)),
                        ('topic', models.TextField(db_collation='C')),
                        ('key', models.TextField(db_collation='C')),
                        ('payload', models.JSONField(null=True)),
                        ('metadata', models.JSONField()),
                        ('created_at', models.DateTimeField()),
                    ],
                    options={
                        'db_table': 'pgqueue_event',
                    },
                ),
            ],
        ),
    ]
