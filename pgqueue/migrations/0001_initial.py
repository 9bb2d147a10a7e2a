"""The tables."""

import datetime

import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models

import pgqueue.models.fields
import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='Workers start none of its messages.')),
                ('retention', models.DurationField(blank=True, help_text='How long its history is kept. Empty: as PGQUEUE says.', null=True)),
                ('retention_succeeded', models.DurationField(blank=True, help_text='How long messages that succeeded are kept. Empty: as its history.', null=True)),
                ('retention_cancelled', models.DurationField(blank=True, help_text='The same for messages that were cancelled.', null=True)),
                ('retention_discarded', models.DurationField(blank=True, help_text='The same for messages that were discarded, as dead letters are in the end.', null=True)),
                ('retention_expired', models.DurationField(blank=True, help_text='The same for messages that expired.', null=True)),
                ('dead_retention', models.DurationField(blank=True, help_text='How long its dead letters are kept before they are discarded. Empty: as PGQUEUE says.', null=True)),
                ('on_dead', models.TextField(choices=[('block', 'Block'), ('skip', 'Skip')], db_default='block', default='block')),
                ('on_full', models.TextField(choices=[('refuse', 'Its producer gets ChannelFull'), ('drop', 'It is dropped')], db_default='refuse', default='refuse', help_text="What becomes of a message beyond a policy's max_size.")),
                ('handler', models.TextField(blank=True, db_default='', default='', help_text='The import path of the task that raw messages are given to.')),
                ('watched', models.BooleanField(db_default=False, default=False, help_text='Whether watch() is notified of what happens to its messages.')),
            ],
            options={
                'db_table': 'pgqueue_channel',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('dead_retention__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_cancelled__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_discarded__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_expired__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525))), ('retention_succeeded__range', (datetime.timedelta(microseconds=1), datetime.timedelta(days=36525)))), name='pgqueue_channel_retention', violation_error_message='What is kept is kept for longer than 0, and for a hundred years at most.'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Policy',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField(db_collation='C')),
                ('scope', models.TextField(choices=[('channel', 'The channel as a whole'), ('each', 'Each key'), ('key', 'One key')])),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='The key, if the policy is for one key.')),
                ('max_running', models.IntegerField(blank=True, help_text='Messages that run at once, on all workers together.', null=True)),
                ('rate', models.FloatField(blank=True, help_text='Messages started in the time below.', null=True)),
                ('per', models.DurationField(db_default=datetime.timedelta(seconds=1), default=datetime.timedelta(seconds=1), help_text='The time that the rate is for: 1 second, or 00:01:00.')),
                ('burst', models.IntegerField(blank=True, help_text='Starts that may follow each other at once after a pause. If empty: those of 100 ms, and at least 1.', null=True)),
                ('max_size', models.IntegerField(blank=True, help_text='Messages that wait or run, beyond which none is accepted.', null=True)),
                ('weight', models.SmallIntegerField(blank=True, help_text='Messages for each turn, where other keys have one.', null=True)),
                ('governs', models.GeneratedField(db_persist=True, expression=models.ExpressionWrapper(models.Q(('max_running__isnull', False), ('rate__isnull', False), ('weight__isnull', False), _connector='OR'), output_field=models.BooleanField()), help_text='Whether claims have to look at it.', output_field=models.BooleanField())),
            ],
            options={
                'verbose_name_plural': 'policies',
                'db_table': 'pgqueue_policy',
                'indexes': [
                    models.Index(condition=models.Q(('weight__isnull', False)), fields=['channel'], name='pgqueue_policy_weighted'),
                    models.Index(condition=models.Q(('max_size__isnull', False)), fields=['channel'], name='pgqueue_policy_sized'),
                ],
                'constraints': [
                    models.UniqueConstraint(fields=('channel', 'scope', 'key'), name='pgqueue_policy_once', violation_error_message='There is such a policy already.'),
                    models.CheckConstraint(condition=models.Q(models.Q(('scope', 'key'), models.Q(('key', ''), _negated=True)), models.Q(('key', ''), ('scope__in', ['channel', 'each'])), _connector='OR'), name='pgqueue_policy_scope', violation_error_message="A policy for one key names it; the others don't."),
                    models.CheckConstraint(condition=models.Q(('max_running__gte', 1)), name='pgqueue_policy_max_running', violation_error_message='max_running must be 1 or more.'),
                    models.CheckConstraint(condition=models.Q(('burst__gte', 1)), name='pgqueue_policy_burst', violation_error_message='burst must be 1 or more.'),
                    models.CheckConstraint(condition=models.Q(('max_size__gte', 1)), name='pgqueue_policy_max_size', violation_error_message='max_size must be 1 or more.'),
                    models.CheckConstraint(condition=models.Q(('rate__range', (1e-06, 1000000.0))), name='pgqueue_policy_rate', violation_error_message='rate must be a millionth or more, and a million at most.'),
                    models.CheckConstraint(condition=models.Q(('per__gt', datetime.timedelta(0)), ('per__lte', datetime.timedelta(days=366))), name='pgqueue_policy_per', violation_error_message='per must be longer than 0, and a year at most.'),
                    models.CheckConstraint(condition=models.Q(django.db.models.lookups.GreaterThanOrEqual(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.functions.datetime.Extract('per', 'epoch'), output_field=models.FloatField()), '/', django.db.models.functions.comparison.NullIf('rate', 0.0)), output_field=models.FloatField()), 1e-06), django.db.models.lookups.LessThanOrEqual(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.expressions.CombinedExpression(models.ExpressionWrapper(django.db.models.functions.datetime.Extract('per', 'epoch'), output_field=models.FloatField()), '/', django.db.models.functions.comparison.NullIf('rate', 0.0)), output_field=models.FloatField()), '*', django.db.models.functions.comparison.Coalesce('burst', 1)), output_field=models.FloatField()), 3162240000.0)), name='pgqueue_policy_pace', violation_error_message='By rate and per, a start must take a microsecond or more, and a burst 100 years or less.'),
                    models.CheckConstraint(condition=models.Q(('weight__isnull', True), models.Q(('weight__range', (1, 100)), models.Q(('scope', 'channel'), _negated=True)), _connector='OR'), name='pgqueue_policy_weight', violation_error_message='weight must be 1 to 100, and is for keys.'),
                ],
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
                ('run_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
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
                ('debounced', models.BooleanField(db_default=False, help_text='Its dedupe_key is its own only until it is started.')),
                ('progress', models.JSONField(blank=True, null=True)),
                ('errors', models.JSONField(db_default=[], help_text='The first error and the last nine.')),
                ('claimed_at', models.DateTimeField(blank=True, null=True)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True)),
                ('parent_id', models.BigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_message',
                'permissions': [('operate_message', 'Can run, cancel and replay messages'), ('purge_message', 'Can discard messages')],
                'indexes': [
                    models.Index(condition=models.Q(('governed', False), ('state', 'ready')), fields=['channel', 'key', 'rank', 'run_at', 'id'], name='pgqueue_message_free'),
                    models.Index(condition=models.Q(('state', 'scheduled')), fields=['run_at'], name='pgqueue_message_due'),
                    models.Index(condition=models.Q(('state', 'running')), fields=['channel', 'key'], name='pgqueue_message_running'),
                    models.Index(condition=models.Q(('state', 'dead')), fields=['channel', 'key', 'id'], name='pgqueue_message_dead'),
                    models.Index(condition=models.Q(('claimed_at__isnull', False), ('state', 'dead')), fields=['channel', 'claimed_at'], name='pgqueue_message_dead_since'),
                    models.Index(condition=models.Q(('governed', True), ('ordered', False), ('state', 'ready')), fields=['channel', 'key', 'rank', 'run_at', 'id'], name='pgqueue_message_governed'),
                    models.Index(condition=models.Q(('ordered', True), ('state__in', ['held', 'scheduled', 'ready', 'running'])), fields=['channel', 'key', 'id'], name='pgqueue_message_ordered'),
                    models.Index(condition=models.Q(('ordered', True), ('state', 'dead')), fields=['channel', 'key', 'id'], name='pgqueue_message_ordered_dead'),
                    models.Index(condition=models.Q(('state__in', ['held', 'scheduled'])), fields=['channel', 'key'], name='pgqueue_message_waiting'),
                    models.Index(condition=models.Q(('state', 'held')), fields=['id'], name='pgqueue_message_held'),
                    models.Index(condition=models.Q(('expires_at__isnull', False), ('state__in', ['held', 'scheduled', 'ready'])), fields=['expires_at'], name='pgqueue_message_expires'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('state__in', ['held', 'scheduled', 'ready', 'running', 'dead'])), name='pgqueue_message_state'),
                    models.CheckConstraint(condition=models.Q(('priority__range', (-100, 100))), name='pgqueue_message_priority'),
                    models.UniqueConstraint(condition=models.Q(('dedupe_key__isnull', False), ('state__in', ['held', 'scheduled', 'ready', 'running'])), fields=('channel', 'dedupe_key'), name='pgqueue_message_dedupe'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Dedupe',
            fields=[
                ('pk', models.CompositePrimaryKey('channel', 'dedupe_key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('dedupe_key', models.TextField(db_collation='C')),
                ('message_id', models.BigIntegerField()),
                ('expires_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_dedupe',
                'default_permissions': (),
                'indexes': [
                    models.Index(fields=['expires_at'], name='pgqueue_dedupe_expires'),
                ],
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
            name='Purged',
            fields=[
                ('keep', models.DurationField(primary_key=True, serialize=False)),
                ('rules', models.TextField(help_text='A digest of how long everything is kept.')),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_purged',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('pk', models.CompositePrimaryKey('channel', 'key', blank=True, editable=False, primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C')),
                ('state', models.TextField(choices=[('idle', 'Idle'), ('runnable', 'Runnable'), ('saturated', 'Saturated'), ('throttled', 'Throttled')])),
                ('turn_at', models.DateTimeField(help_text='Its place in the round: the earliest is served next.')),
                ('tat', models.DateTimeField(help_text='Theoretical arrival time, by which the rate is kept.')),
                ('wake_at', models.DateTimeField(help_text='When a throttled lane may go on.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_lane',
                'default_permissions': (),
                'indexes': [
                    models.Index(condition=models.Q(('state', 'runnable')), fields=['channel', 'turn_at'], name='pgqueue_lane_runnable'),
                    models.Index(condition=models.Q(('state', 'throttled')), fields=['wake_at'], name='pgqueue_lane_throttled'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('state__in', ['idle', 'runnable', 'saturated', 'throttled'])), name='pgqueue_lane_state'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Gate',
            fields=[
                ('channel', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('tat', models.DateTimeField(help_text="Theoretical arrival time, as a lane's.")),
                ('wake_at', models.DateTimeField(help_text="When the channel's rate lets it go on.", null=True)),
            ],
            options={
                'db_table': 'pgqueue_gate',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Bell',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('channel', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C', null=True)),
            ],
            options={
                'db_table': 'pgqueue_bell',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Waiter',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('message_id', models.BigIntegerField()),
                ('until', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_waiter',
                'default_permissions': (),
                'indexes': [
                    models.Index(fields=['message_id'], name='pgqueue_waiter_message'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Worker',
            fields=[
                ('id', models.UUIDField(primary_key=True, serialize=False)),
                ('host', models.TextField()),
                ('pid', models.IntegerField()),
                ('started_at', models.DateTimeField()),
                ('last_seen', models.DateTimeField()),
                ('channels', pgqueue.models.fields.NamesField(help_text='Null: every channel, also future ones.', null=True)),
                ('excluded', pgqueue.models.fields.NamesField(db_default=[])),
                ('notify_until', models.DateTimeField(help_text='Until then it is idle, and is notified of new messages.', null=True)),
                ('info', models.JSONField(db_default={}, help_text='What it runs: threads, version, …')),
            ],
            options={
                'db_table': 'pgqueue_worker',
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
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('task', models.TextField(help_text='The import path of the task.')),
                ('cron', models.TextField(blank=True, db_default='', default='', help_text='Minute, hour, day of the month, month, day of the week; or @daily, …', verbose_name='cron line')),
                ('every', models.DurationField(blank=True, help_text='An interval instead of a cron line: 00:05:00.', null=True)),
                ('timezone', models.TextField(db_default='UTC', default='UTC', help_text='The time zone of the cron line: Europe/Berlin.')),
                ('args', models.JSONField(blank=True, db_default=[], default=list)),
                ('kwargs', models.JSONField(blank=True, db_default={}, default=dict)),
                ('channel', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text="Empty: the task's.")),
                ('priority', models.SmallIntegerField(blank=True, help_text="Empty: the task's.", null=True)),
                ('missed', models.TextField(choices=[('skip', 'Skip them'), ('once', 'One message for all of them'), ('all', 'One message for each')], db_default='once', default='once', help_text='What becomes of ticks that came while no worker ran.')),
                ('overlap', models.TextField(choices=[('allow', 'Let them run at once'), ('skip', 'Skip the tick'), ('one', 'Queue behind it')], db_default='allow', default='allow', help_text='What to do while the message of an earlier tick waits or runs.')),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='A paused schedule enqueues nothing.')),
                ('next_at', models.DateTimeField(editable=False, help_text='The first tick that was not done. Null: the next one from now.', null=True)),
                ('ticked_at', models.DateTimeField(editable=False, help_text='The last tick that had a message.', null=True)),
                ('message_id', models.BigIntegerField(editable=False, help_text='The message of that tick.', null=True)),
                ('error', models.TextField(db_default='', default='', editable=False, help_text='Why the last tick had no message.')),
                ('declared', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether it is declared in code.')),
                ('definition', models.TextField(db_default='', default='', editable=False, help_text='A digest of its declaration in code.')),
                ('superseded', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, help_text='Earlier declarations in code, newest first.')),
                ('seen_at', models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_schedule',
                'indexes': [
                    models.Index(models.OrderBy(models.F('next_at'), nulls_first=True), condition=models.Q(('paused', False)), name='pgqueue_schedule_due'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(models.Q(('cron', ''), _negated=True), ('every', None)), models.Q(('cron', ''), ('every__isnull', False)), _connector='OR'), name='pgqueue_schedule_when', violation_error_message='Give a cron line, or an interval.'),
                    models.CheckConstraint(condition=models.Q(('every__range', (datetime.timedelta(seconds=1), datetime.timedelta(days=366)))), name='pgqueue_schedule_every', violation_error_message='every must be a second or more, and a year at most.'),
                    models.CheckConstraint(condition=models.Q(('missed__in', ['skip', 'once', 'all'])), name='pgqueue_schedule_missed'),
                    models.CheckConstraint(condition=models.Q(('overlap__in', ['allow', 'skip', 'one'])), name='pgqueue_schedule_overlap'),
                ],
            },
        ),
    ]
