"""Messages, their history, and all that decides which of them run."""

import datetime

import django.db.models.expressions
import django.db.models.functions.comparison
import django.db.models.functions.datetime
import django.db.models.lookups
from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name')),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='Workers start none of its messages.', verbose_name='paused')),
                ('retention', models.DurationField(blank=True, help_text='How long its history is kept. Empty: as PGQUEUE says.', null=True, verbose_name='retention')),
                ('retention_succeeded', models.DurationField(blank=True, help_text='How long messages that succeeded are kept. Empty: as its history.', null=True, verbose_name='retention succeeded')),
                ('retention_cancelled', models.DurationField(blank=True, help_text='The same for messages that were cancelled.', null=True, verbose_name='retention cancelled')),
                ('retention_discarded', models.DurationField(blank=True, help_text='The same for messages that were discarded, as dead letters are in the end.', null=True, verbose_name='retention discarded')),
                ('retention_expired', models.DurationField(blank=True, help_text='The same for messages that expired.', null=True, verbose_name='retention expired')),
                ('dead_retention', models.DurationField(blank=True, help_text='How long its dead letters are kept before they are discarded. Empty: as PGQUEUE says.', null=True, verbose_name='dead retention')),
                ('on_dead', models.TextField(choices=[('block', 'It blocks them'), ('skip', 'It is skipped')], db_default='block', default='block', help_text='What a dead message does to those behind it, where they run in order.', verbose_name='on dead')),
                ('on_full', models.TextField(choices=[('refuse', 'Its producer gets ChannelFull'), ('drop', 'It is dropped')], db_default='refuse', default='refuse', help_text="What becomes of a message beyond a policy's max_size.", verbose_name='on full')),
                ('handler', models.TextField(blank=True, db_default='', default='', help_text='The import path of the task that raw messages are given to.', verbose_name='handler')),
                ('watched', models.BooleanField(db_default=False, default=False, help_text='Whether watch() is notified of what happens to its messages.', verbose_name='watched')),
            ],
            options={
                'verbose_name': 'channel',
                'verbose_name_plural': 'channels',
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
                ('channel', models.TextField(db_collation='C', verbose_name='channel')),
                ('scope', models.TextField(choices=[('channel', 'The channel as a whole'), ('each', 'Each key'), ('key', 'One key')], verbose_name='scope')),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='The key, if the policy is for one key.', verbose_name='key')),
                ('max_running', models.IntegerField(blank=True, help_text='Messages that run at once, on all workers together.', null=True, verbose_name='max running')),
                ('rate', models.FloatField(blank=True, help_text='Messages started in the time below.', null=True, verbose_name='rate')),
                ('per', models.DurationField(db_default=datetime.timedelta(seconds=1), default=datetime.timedelta(seconds=1), help_text='The time that the rate is for: 1 second, or 00:01:00.', verbose_name='per')),
                ('burst', models.IntegerField(blank=True, help_text='Starts that may follow each other at once after a pause. If empty: those of 100 ms, and at least 1.', null=True, verbose_name='burst')),
                ('max_size', models.IntegerField(blank=True, help_text='Messages that wait or run, beyond which none is accepted.', null=True, verbose_name='max size')),
                ('weight', models.SmallIntegerField(blank=True, help_text='Messages for each turn, where other keys have one.', null=True, verbose_name='weight')),
                ('governs', models.GeneratedField(db_persist=True, expression=models.ExpressionWrapper(models.Q(('max_running__isnull', False), ('rate__isnull', False), ('weight__isnull', False), _connector='OR'), output_field=models.BooleanField()), help_text='Whether claims have to look at it.', output_field=models.BooleanField())),
            ],
            options={
                'verbose_name': 'policy',
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
                ('id', models.BigAutoField(primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.TextField(db_collation='C', verbose_name='channel')),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', help_text='The sub-queue inside its channel: a tenant, a user.', verbose_name='key')),
                ('task', models.TextField(help_text="The import path of the task's function.", verbose_name='task')),
                ('payload', models.JSONField(blank=True, null=True, verbose_name='payload')),
                ('body', models.BinaryField(blank=True, null=True, verbose_name='body')),
                ('metadata', models.JSONField(blank=True, db_default={}, verbose_name='metadata')),
                ('options', models.JSONField(blank=True, help_text="What the task's using() changed for this message alone.", null=True, verbose_name='options')),
                ('priority', models.SmallIntegerField(db_default=0, help_text='-100 to 100, higher first.', verbose_name='priority')),
                ('rank', models.GeneratedField(db_persist=True, expression=django.db.models.expressions.CombinedExpression(models.F('priority'), '*', models.Value(-1)), help_text='-priority: an index and a row comparison need one direction.', output_field=models.SmallIntegerField())),
                ('state', models.TextField(choices=[('held', 'Held'), ('scheduled', 'Scheduled'), ('ready', 'Ready'), ('running', 'Running'), ('dead', 'Dead')], verbose_name='state')),
                ('run_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='run at')),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires at')),
                ('lease_until', models.DateTimeField(blank=True, null=True, verbose_name='lease until')),
                ('lease_for', models.DurationField(blank=True, help_text='How long its lease is: it ends that long after now at the latest.', null=True, verbose_name='lease for')),
                ('worker_id', models.UUIDField(blank=True, null=True, verbose_name='worker id')),
                ('attempt', models.IntegerField(db_default=0, help_text='Claims so far. A part of the fence: never reset.', verbose_name='attempt')),
                ('failures', models.IntegerField(db_default=0, help_text='Errors it raised so far.', verbose_name='failures')),
                ('lost', models.IntegerField(db_default=0, help_text='Workers that died while they ran it.', verbose_name='lost')),
                ('max_attempts', models.IntegerField(help_text='Errors after which it is dead.', verbose_name='max attempts')),
                ('ordered', models.BooleanField(db_default=False, verbose_name='ordered')),
                ('governed', models.BooleanField(db_default=False, verbose_name='governed')),
                ('dedupe_key', models.TextField(blank=True, db_collation='C', null=True, verbose_name='dedupe key')),
                ('debounced', models.BooleanField(db_default=False, help_text='Its dedupe_key is its own only until it is started.', verbose_name='debounced')),
                ('progress', models.JSONField(blank=True, null=True, verbose_name='progress')),
                ('errors', models.JSONField(db_default=[], help_text='The first error and the last nine.', verbose_name='errors')),
                ('claimed_at', models.DateTimeField(blank=True, null=True, verbose_name='claimed at')),
                ('started_at', models.DateTimeField(blank=True, null=True, verbose_name='started at')),
                ('cancel_requested_at', models.DateTimeField(blank=True, null=True, verbose_name='cancel requested at')),
                ('parent_id', models.BigIntegerField(blank=True, null=True, verbose_name='parent id')),
                ('flow_id', models.BigIntegerField(blank=True, null=True, verbose_name='flow id')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at')),
            ],
            options={
                'verbose_name': 'message',
                'verbose_name_plural': 'messages',
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
                    models.Index(condition=models.Q(('flow_id__isnull', False)), fields=['flow_id', 'id'], name='pgqueue_message_flow'),
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
                        ('id', models.BigIntegerField(primary_key=True, serialize=False, verbose_name='ID')),
                        ('channel', models.TextField(db_collation='C', verbose_name='channel')),
                        ('key', models.TextField(db_collation='C', verbose_name='key')),
                        ('task', models.TextField(verbose_name='task')),
                        ('payload', models.JSONField(null=True, verbose_name='payload')),
                        ('body', models.BinaryField(null=True, verbose_name='body')),
                        ('metadata', models.JSONField(verbose_name='metadata')),
                        ('options', models.JSONField(null=True, verbose_name='options')),
                        ('priority', models.SmallIntegerField(verbose_name='priority')),
                        ('run_at', models.DateTimeField(verbose_name='run at')),
                        ('expires_at', models.DateTimeField(null=True, verbose_name='expires at')),
                        ('worker_id', models.UUIDField(null=True, verbose_name='worker id')),
                        ('attempt', models.IntegerField(verbose_name='attempt')),
                        ('failures', models.IntegerField(verbose_name='failures')),
                        ('lost', models.IntegerField(verbose_name='lost')),
                        ('max_attempts', models.IntegerField(verbose_name='max attempts')),
                        ('ordered', models.BooleanField(verbose_name='ordered')),
                        ('dedupe_key', models.TextField(db_collation='C', null=True, verbose_name='dedupe key')),
                        ('progress', models.JSONField(null=True, verbose_name='progress')),
                        ('errors', models.JSONField(verbose_name='errors')),
                        ('claimed_at', models.DateTimeField(null=True, verbose_name='claimed at')),
                        ('started_at', models.DateTimeField(null=True, verbose_name='started at')),
                        ('cancel_requested_at', models.DateTimeField(null=True, verbose_name='cancel requested at')),
                        ('parent_id', models.BigIntegerField(null=True, verbose_name='parent id')),
                        ('flow_id', models.BigIntegerField(null=True, verbose_name='flow id')),
                        ('created_at', models.DateTimeField(verbose_name='created at')),
                        ('outcome', models.TextField(choices=[('succeeded', 'Succeeded'), ('cancelled', 'Cancelled'), ('discarded', 'Discarded'), ('expired', 'Expired')], verbose_name='outcome')),
                        ('result', models.JSONField(null=True, verbose_name='result')),
                        ('finished_at', models.DateTimeField(verbose_name='finished at')),
                        ('txid', models.BigIntegerField(verbose_name='txid')),
                    ],
                    options={
                        'verbose_name': 'history',
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
            name='LogFloor',
            fields=[
                ('log', models.TextField(db_collation='C', help_text='Its name: history.', primary_key=True, serialize=False)),
                ('position', models.BigIntegerField(help_text="The highest position that was removed: of history, a transaction's number.")),
            ],
            options={
                'db_table': 'pgqueue_log_floor',
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
                ('ended', pgqueue.models.fields.IdsField(help_text='Messages of flows that ended or died: not a lane is meant, but their children.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_bell',
                'default_permissions': (),
                'indexes': [
                    models.Index(models.F('channel'), models.F('id'), name='pgqueue_bell_turns'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Flow',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(verbose_name='name')),
                ('handler_id', models.BigIntegerField(blank=True, help_text='The message that runs when all others have ended.', null=True, verbose_name='handler id')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at')),
                ('ended_at', models.DateTimeField(blank=True, help_text='When a duty found that none of its messages is left.', null=True, verbose_name='ended at')),
                ('names', models.JSONField(db_default={}, editable=False, help_text='The ids of its messages that have a name, by these names.')),
            ],
            options={
                'verbose_name': 'flow',
                'verbose_name_plural': 'flows',
                'db_table': 'pgqueue_flow',
                'default_permissions': ('view',),
                'indexes': [
                    models.Index(condition=models.Q(('ended_at', None)), fields=['created_at'], name='pgqueue_flow_living'),
                    models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='pgqueue_flow_ended'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Dependency',
            fields=[
                ('pk', models.CompositePrimaryKey('flow_id', 'child_id', 'parent_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('flow_id', models.BigIntegerField()),
                ('child_id', models.BigIntegerField()),
                ('parent_id', models.BigIntegerField()),
            ],
            options={
                'db_table': 'pgqueue_dependency',
                'default_permissions': (),
                'indexes': [
                    models.Index(fields=['parent_id'], name='pgqueue_dependency_parent'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Blocked',
            fields=[
                ('message_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('flow_id', models.BigIntegerField()),
                ('watched_id', models.BigIntegerField(help_text='All parents with a lower id have ended.')),
                ('on_failure', models.TextField(choices=[('wait', 'Wait'), ('cancel', 'Cancel'), ('run', 'Run')])),
            ],
            options={
                'db_table': 'pgqueue_blocked',
                'default_permissions': (),
                'indexes': [
                    models.Index(fields=['watched_id'], name='pgqueue_blocked_watched'),
                ],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('on_failure__in', ['wait', 'cancel', 'run'])), name='pgqueue_blocked_on_failure'),
                ],
            },
        ),
        migrations.CreateModel(
            name='FailedMember',
            fields=[
                ('message_id', models.BigIntegerField(primary_key=True, serialize=False)),
                ('flow_id', models.BigIntegerField(db_index=True)),
            ],
            options={
                'db_table': 'pgqueue_failed_member',
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
                ('id', models.UUIDField(primary_key=True, serialize=False, verbose_name='ID')),
                ('host', models.TextField(verbose_name='host')),
                ('pid', models.IntegerField(verbose_name='PID')),
                ('started_at', models.DateTimeField(verbose_name='started at')),
                ('last_seen', models.DateTimeField(verbose_name='last seen')),
                ('channels', pgqueue.models.fields.NamesField(help_text='Null: every channel, also future ones.', null=True, verbose_name='channels')),
                ('excluded', pgqueue.models.fields.NamesField(db_default=[], verbose_name='excluded')),
                ('notify_until', models.DateTimeField(help_text='Until then it is idle, and is notified of new messages.', null=True, verbose_name='notify until')),
                ('info', models.JSONField(db_default={}, help_text='What it runs: threads, version, …', verbose_name='info')),
            ],
            options={
                'verbose_name': 'worker',
                'verbose_name_plural': 'workers',
                'db_table': 'pgqueue_worker',
            },
        ),
        migrations.CreateModel(
            name='Overview',
            fields=[
            ],
            options={
                'verbose_name': 'overview',
                'verbose_name_plural': 'overview',
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('pgqueue.worker',),
        ),
        migrations.CreateModel(
            name='Duty',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name')),
                ('due_at', models.DateTimeField(verbose_name='due at')),
                ('ran_at', models.DateTimeField(null=True, verbose_name='ran at')),
                ('upto', models.DateTimeField(help_text='Of the duty “retention”: nothing younger than this and a day is removed.', null=True, verbose_name='up to')),
                ('failing_since', models.DateTimeField(help_text='When it first failed since it was last done.', null=True, verbose_name='failing since')),
            ],
            options={
                'verbose_name': 'duty',
                'verbose_name_plural': 'duties',
                'db_table': 'pgqueue_duty',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name')),
                ('task', models.TextField(help_text='The import path of the task.', verbose_name='task')),
                ('cron', models.TextField(blank=True, db_default='', default='', help_text='Minute, hour, day of the month, month, day of the week; or @daily, …', verbose_name='cron line')),
                ('every', models.DurationField(blank=True, help_text='An interval instead of a cron line: 00:05:00.', null=True, verbose_name='every')),
                ('timezone', models.TextField(db_default='UTC', default='UTC', help_text='The time zone of the cron line: Europe/Berlin.', verbose_name='timezone')),
                ('args', models.JSONField(blank=True, db_default=[], default=list, verbose_name='args')),
                ('kwargs', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='kwargs')),
                ('channel', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text="Empty: the task's.", verbose_name='channel')),
                ('priority', models.SmallIntegerField(blank=True, help_text="Empty: the task's.", null=True, verbose_name='priority')),
                ('missed', models.TextField(choices=[('skip', 'Skip them'), ('once', 'One message for all of them'), ('all', 'One message for each')], db_default='once', default='once', help_text='What becomes of ticks that came while no worker ran.', verbose_name='missed')),
                ('overlap', models.TextField(choices=[('allow', 'Let them run at once'), ('skip', 'Skip the tick'), ('one', 'Queue behind it')], db_default='allow', default='allow', help_text='What to do while the message of an earlier tick waits or runs.', verbose_name='overlap')),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='A paused schedule enqueues nothing.', verbose_name='paused')),
                ('next_at', models.DateTimeField(editable=False, help_text='The first tick that was not done. Null: the next one from now.', null=True, verbose_name='next at')),
                ('ticked_at', models.DateTimeField(editable=False, help_text='The last tick that had a message.', null=True, verbose_name='ticked at')),
                ('message_id', models.BigIntegerField(editable=False, help_text='The message of that tick.', null=True, verbose_name='message id')),
                ('recent', models.JSONField(db_default=[], default=list, editable=False, help_text='The messages of the last ten ticks that had one, the newest first.', verbose_name='recent')),
                ('error', models.TextField(db_default='', default='', editable=False, help_text='Why the last tick had no message.', verbose_name='error')),
                ('declared', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether it is declared in code.', verbose_name='declared')),
                ('definition', models.TextField(db_default='', default='', editable=False, help_text='A digest of its declaration in code.', verbose_name='definition')),
                ('superseded', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, help_text='Earlier declarations in code, newest first.', verbose_name='superseded')),
                ('seen_at', models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True, verbose_name='seen at')),
            ],
            options={
                'verbose_name': 'schedule',
                'verbose_name_plural': 'schedules',
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
        migrations.CreateModel(
            name='Operation',
            fields=[
                ('message_id', models.BigIntegerField(help_text='The message that does it.', primary_key=True, serialize=False)),
                ('user', models.JSONField(help_text='Who asked: an id and a name.', null=True)),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
            ],
            options={
                'db_table': 'pgqueue_operation',
                'default_permissions': (),
            },
        ),
        RunSQLFile('0001_fixed_rows'),
        RunSQLFile('0001_bounds'),
    ]
