"""The event log, its readers and groups, subscriptions, and webhooks."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

import pgqueue.models.fields
import pgqueue.options.webhook_options
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0003_functions'),
    ]

    operations = [
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
        migrations.SeparateDatabaseAndState(
            database_operations=[RunSQLFile('0004_events')],
            state_operations=[
                migrations.CreateModel(
                    name='Event',
                    fields=[
                        ('position', models.BigIntegerField(primary_key=True, serialize=False, verbose_name='position')),
                        ('topic', models.TextField(db_collation='C', verbose_name='topic')),
                        ('key', models.TextField(db_collation='C', verbose_name='key')),
                        ('payload', models.JSONField(null=True, verbose_name='payload')),
                        ('metadata', models.JSONField(verbose_name='metadata')),
                        ('created_at', models.DateTimeField(verbose_name='created at')),
                    ],
                    options={
                        'verbose_name': 'event',
                        'verbose_name_plural': 'events',
                        'db_table': 'pgqueue_event',
                    },
                ),
            ],
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
                ('feed_until', models.DateTimeField(help_text='The same, but it is the WAL feed that notifies it.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_reader',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Group',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name')),
                ('partitions', models.IntegerField(db_default=1, default=1, verbose_name='partitions')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at')),
            ],
            options={
                'verbose_name': 'group',
                'verbose_name_plural': 'groups',
                'db_table': 'pgqueue_group',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(('partitions__range', (1, 1024))), name='pgqueue_group_partitions', violation_error_message='A group has 1 to 1024 partitions.'),
                ],
            },
        ),
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
                ('suspect', models.BigIntegerField(help_text="The event that may have ended the last reader's process.", null=True)),
                ('lost', models.IntegerField(db_default=0, help_text='How many readers were lost there; 1: which event is not known.')),
                ('begun_at', models.DateTimeField(help_text="When the suspected event's handler began, while it runs.", null=True)),
            ],
            options={
                'db_table': 'pgqueue_cursor',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Subscription',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False, verbose_name='name')),
                ('task', models.TextField(blank=True, db_default='', default='', help_text='The import path of the task. Empty: raw messages.', verbose_name='task')),
                ('topics', pgqueue.models.fields.NamesField(blank=True, db_default=[], default=list, help_text='order.paid, order.*, order.**', verbose_name='topics')),
                ('where', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='where')),
                ('predicate', models.TextField(blank=True, db_default='', default='', help_text="SQL over an event e and a subscription s: e.key = s.params ->> 'key'", verbose_name='predicate')),
                ('params', models.JSONField(blank=True, db_default={}, default=dict, help_text='What the predicate knows as s.params.', verbose_name='params')),
                ('channel', models.TextField(db_collation='C', db_default='default', default='default', verbose_name='channel')),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='Of its messages: a text, {key}, {topic} or {payload.name}.', verbose_name='key')),
                ('ordered', models.BooleanField(db_default=False, default=False, help_text="Run them one by one, in the log's order.", verbose_name='ordered')),
                ('batch', models.IntegerField(blank=True, help_text='Events in one message, at most. Empty: one.', null=True, verbose_name='batch')),
                ('split_by', models.TextField(blank=True, db_default='', default='', help_text='Batch only events that agree in this: {key}, {topic} or {payload.name}.', verbose_name='split by')),
                ('priority', models.SmallIntegerField(db_default=0, default=0, verbose_name='priority')),
                ('max_attempts', models.IntegerField(db_default=20, default=20, verbose_name='max attempts')),
                ('metadata', models.JSONField(blank=True, db_default={}, default=dict, verbose_name='metadata')),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='It goes on where it was when it is resumed.', verbose_name='paused')),
                ('expires_after', models.DurationField(blank=True, help_text='It is deleted unless it is renewed for so long.', null=True, verbose_name='expires after')),
                ('expires_at', models.DateTimeField(editable=False, null=True, verbose_name='expires at')),
                ('position', models.BigIntegerField(editable=False, help_text='The last event that it was matched with, unless it follows.', verbose_name='position')),
                ('follows', models.BooleanField(db_default=False, default=False, editable=False, help_text='It is where the dispatch is.', verbose_name='follows')),
                ('error', models.TextField(db_default='', default='', editable=False, help_text='Why the dispatch has paused it.', verbose_name='error')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), editable=False, verbose_name='created at')),
                ('declared', models.BooleanField(db_default=False, default=False, editable=False, verbose_name='declared')),
                ('definition', models.TextField(db_default='', default='', editable=False, verbose_name='definition')),
                ('superseded', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, verbose_name='superseded')),
                ('seen_at', models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True, verbose_name='seen at')),
                ('exact', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False, verbose_name='exact')),
                ('regex', models.TextField(db_default='', default='', editable=False, verbose_name='regex')),
                ('eq_path', models.TextField(db_default='', default='', editable=False, verbose_name='eq path')),
                ('eq_value', models.JSONField(editable=False, null=True, verbose_name='eq value')),
                ('path', models.TextField(db_default='', default='', editable=False, verbose_name='path')),
                ('vars', models.JSONField(db_default={}, default=dict, editable=False, verbose_name='vars')),
                ('key_path', models.TextField(db_default='', default='', editable=False, verbose_name='key path')),
                ('split_path', models.TextField(db_default='', default='', editable=False, verbose_name='split path')),
            ],
            options={
                'verbose_name': 'subscription',
                'verbose_name_plural': 'subscriptions',
                'db_table': 'pgqueue_subscription',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('channel', ''), _negated=True)), name='pgqueue_subscription_names'),
                    models.CheckConstraint(condition=models.Q(('batch__range', (1, 10000))), name='pgqueue_subscription_batch', violation_error_message='A batch has 1 to 10 000 events.'),
                    models.CheckConstraint(condition=models.Q(('priority__range', (-100, 100))), name='pgqueue_subscription_priority'),
                    models.CheckConstraint(condition=models.Q(('max_attempts__gte', 1)), name='pgqueue_subscription_attempts'),
                ],
            },
        ),
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('subscription', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, related_name='webhook', serialize=False, to='pgqueue.subscription')),
                ('url', models.TextField(help_text='https://example.com/hooks', verbose_name='URL')),
                ('secret', models.TextField(blank=True, default=pgqueue.options.webhook_options.new_secret, help_text='What posts are signed with: whsec_ and base64. Empty: a new one.', verbose_name='secret')),
                ('rotated', models.JSONField(db_default=[], default=list, editable=False, help_text='Secrets before this one, and until when posts are signed with them, too.', verbose_name='rotated')),
                ('headers', models.JSONField(blank=True, db_default={}, default=dict, help_text='What is sent with each post.', verbose_name='headers')),
                ('enabled', models.BooleanField(db_default=True, default=True, help_text='If not, nothing is posted; what happens meanwhile is skipped.', verbose_name='enabled')),
                ('cloudevents', models.BooleanField(db_default=False, default=False, help_text='Post CloudEvents, as JSON.', verbose_name='CloudEvents')),
                ('gzip', models.BooleanField(db_default=True, default=True, help_text='Compress bodies of 1 KiB or more.', verbose_name='gzip')),
                ('serializer', models.TextField(blank=True, db_default='', default='', help_text='The import path of a function that makes the body.', verbose_name='serializer')),
                ('timeout', models.DurationField(blank=True, help_text='How long a post may take. Empty: as PGQUEUE says.', null=True, verbose_name='timeout')),
                ('backoff', models.JSONField(blank=True, help_text='Seconds to wait after each failure: [10, 60, 3600], or {"base": 10, "cap": 3600}. Empty: as PGQUEUE says.', null=True, verbose_name='backoff')),
                ('salt', models.UUIDField(default=uuid.uuid4, editable=False, help_text='A part of each webhook-id.', verbose_name='salt')),
                ('failures', models.IntegerField(db_default=0, default=0, editable=False, help_text='Noted since the last success: at most one a second by each worker.', verbose_name='failures')),
                ('failing_since', models.DateTimeField(editable=False, null=True, verbose_name='failing since')),
            ],
            options={
                'verbose_name': 'webhook',
                'verbose_name_plural': 'webhooks',
                'db_table': 'pgqueue_webhook',
                'permissions': [('operate_webhook', 'Can rotate, resume and test webhooks')],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('url', ''), _negated=True), models.Q(('secret', ''), _negated=True)), name='pgqueue_webhook_texts'),
                ],
            },
            bases=('pgqueue.subscription',),
        ),
        RunSQLFile('0004_storage'),
        RunSQLFile('0004_bounds'),
        RunSQLFile('0004_publish'),
        RunSQLFile('0004_filters'),
        RunSQLFile('0004_predicates'),
    ]
