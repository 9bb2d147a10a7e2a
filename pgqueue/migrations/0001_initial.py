import django.db.models.expressions
import pgqueue.models.clock
import pgqueue.models.names
from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='Workers start none of its messages.')),
                ('retention', models.DurationField(blank=True, help_text='How long its history is kept, if not as long as all.', null=True)),
                ('on_dead', models.TextField(choices=[('block', 'Block'), ('skip', 'Skip')], db_default='block', default='block')),
                ('options', models.JSONField(blank=True, db_default={}, default=dict)),
            ],
            options={
                'db_table': 'pgqueue_channel',
            },
        ),
        migrations.CreateModel(
            name='Duty',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('due_at', models.DateTimeField()),
                ('ran_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name_plural': 'duties',
                'db_table': 'pgqueue_duty',
            },
        ),
        migrations.SeparateDatabaseAndState(
            database_operations=[RunSQLFile('0001_history')],
            state_operations=[
                migrations.CreateModel(
                    name='History',
                    fields=[
                        ('id', models.BigIntegerField(primary_key=True, serialize=False)),
                        ('channel', models.TextField(db_collation='C')),
                        ('key', models.TextField(db_collation='C')),
                        ('task', models.TextField()),
                        ('payload', models.JSONField(null=True)),
                        ('body', models.BinaryField(null=True)),
                        ('metadata', models.JSONField()),
                        ('options', models.JSONField(null=True)),
                        ('priority', models.SmallIntegerField()),
                        ('run_at', models.DateTimeField()),
                        ('expires_at', models.DateTimeField(null=True)),
                        ('worker_id', models.UUIDField(null=True)),
                        ('attempt', models.IntegerField()),
                        ('failures', models.IntegerField()),
                        ('lost', models.IntegerField()),
                        ('max_attempts', models.IntegerField()),
                        ('ordered', models.BooleanField()),
                        ('dedupe_key', models.TextField(db_collation='C', null=True)),
                        ('progress', models.JSONField(null=True)),
                        ('errors', models.JSONField()),
                        ('claimed_at', models.DateTimeField(null=True)),
                        ('started_at', models.DateTimeField(null=True)),
                        ('cancel_requested_at', models.DateTimeField(null=True)),
                        ('parent_id', models.BigIntegerField(null=True)),
                        ('created_at', models.DateTimeField()),
                        ('outcome', models.TextField(choices=[('succeeded', 'Succeeded'), ('cancelled', 'Cancelled'), ('discarded', 'Discarded'), ('expired', 'Expired')])),
                        ('result', models.JSONField(null=True)),
                        ('finished_at', models.DateTimeField()),
                        ('txid', models.BigIntegerField()),
                    ],
                    options={
                        'verbose_name_plural': 'history',
                        'db_table': 'pgqueue_history',
                    },
                ),
            ],
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('host', models.TextField()),
                ('pid', models.IntegerField()),
                ('started_at', models.DateTimeField()),
                ('last_seen', models.DateTimeField()),
                ('channels', pgqueue.models.names.NamesField(help_text='Null: every channel, also those yet to come.', null=True)),
                ('excluded', pgqueue.models.names.NamesField(db_default=[])),
                ('notify_until', models.DateTimeField(help_text='Until then it is idle, and wants to be told of new messages.', null=True)),
                ('info', models.JSONField(db_default={}, help_text='What it runs: threads, version, …')),
            ],
            options={
                'db_table': 'pgqueue_worker',
            },
        ),
        migrations.CreateModel(
            name='Message',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', help_text='The sub-queue inside its channel: a tenant, a user.')),
                ('task', models.TextField(help_text="The import path of the task's function.")),
                ('payload', models.JSONField(blank=True, null=True)),
                ('body', models.BinaryField(blank=True, null=True)),
                ('metadata', models.JSONField(blank=True, db_default={})),
                ('options', models.JSONField(blank=True, help_text="What the task's using() changed for this message alone.", null=True)),
                ('priority', models.SmallIntegerField(db_default=0, help_text='-100 to 100, higher first.')),
                ('rank', models.GeneratedField(db_persist=True, expression=django.db.models.expressions.CombinedExpression(models.F('priority'), '*', models.Value(-1)), help_text='-priority: an index and a row comparison need one direction.', output_field=models.SmallIntegerField())),
                ('state', models.TextField(choices=[('held', 'Held'), ('scheduled', 'Scheduled'), ('ready', 'Ready'), ('running', 'Running'), ('dead', 'Dead')])),
                ('run_at', models.DateTimeField(db_default=pgqueue.models.clock.StatementTimestamp())),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('lease_until', models.DateTimeField(blank=True, null=True)),
                ('worker_id', models.UUIDField(blank=True, null=True)),
                ('attempt', models.IntegerField(db_default=0, help_text='Claims so far. A part of the fence: never reset.')),
                ('failures', models.IntegerField(db_default=0, help_text='Errors it raised so far.')),
                ('lost', models.IntegerField(db_default=0, help_text='Workers that died while they ran it.')),
                ('max_attempts', models.IntegerField(help_text='Errors after which it is dead.')),
                ('ordered', models.BooleanField(db_default=False)),
                ('governed', models.BooleanField(db_default=False)),
                ('dedupe_key', models.TextField(blank=True, db_collation='C', null=True)),
                ('progress', models.JSONField(blank=True, null=True)),
                ('errors', models.JSONField(db_default=[], help_text='The first error and the last nine.')),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True)),
                ('parent_id', models.BigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.clock.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_message',
                'permissions': [('operate_message', 'Can run, cancel and replay messages'), ('purge_message', 'Can discard messages')],
                'indexes': [models.Index(condition=models.Q(('governed', False), ('state', 'ready')), fields=['channel', 'key', 'rank', 'run_at', 'id'], name='pgqueue_message_free'), models.Index(condition=models.Q(('state', 'scheduled')), fields=['run_at'], name='pgqueue_message_due'), models.Index(condition=models.Q(('state', 'running')), fields=['channel', 'key'], name='pgqueue_message_running'), models.Index(condition=models.Q(('state', 'dead')), fields=['channel', 'key', 'id'], name='pgqueue_message_dead')],
                'constraints': [models.CheckConstraint(condition=models.Q(('state__in', ['held', 'scheduled', 'ready', 'running', 'dead'])), name='pgqueue_message_state'), models.CheckConstraint(condition=models.Q(('priority__range', (-100, 100))), name='pgqueue_message_priority')],
            },
        ),
        RunSQLFile('0001_storage'),
    ]
