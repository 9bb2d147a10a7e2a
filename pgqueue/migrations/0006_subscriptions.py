"""Rules that make messages of events."""

from django.db import migrations, models

import pgqueue.models.fields
import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0005_events'),
    ]

    operations = [
        migrations.CreateModel(
            name='Subscription',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('task', models.TextField(blank=True, db_default='', default='', help_text='The import path of the task. Empty: raw messages.')),
                ('topics', pgqueue.models.fields.NamesField(blank=True, db_default=[], default=list, help_text='order.paid, order.*, order.**')),
                ('where', models.JSONField(blank=True, db_default={}, default=dict)),
                ('predicate', models.TextField(blank=True, db_default='', default='', help_text="SQL over an event e and a subscription s: e.key = s.params ->> 'key'")),
                ('params', models.JSONField(blank=True, db_default={}, default=dict, help_text='What the predicate knows as s.params.')),
                ('channel', models.TextField(db_collation='C', db_default='default', default='default')),
                ('key', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text='Of its messages: a text, {key}, {topic} or {payload.name}.')),
                ('ordered', models.BooleanField(db_default=False, default=False, help_text="Run them one by one, in the log's order.")),
                ('batch', models.IntegerField(blank=True, help_text='Events in one message, at most. Empty: one.', null=True)),
                ('split_by', models.TextField(blank=True, db_default='', default='', help_text='Batch only events that agree in this: {key}, {topic} or {payload.name}.')),
                ('priority', models.SmallIntegerField(db_default=0, default=0)),
                ('max_attempts', models.IntegerField(db_default=5, default=5)),
                ('metadata', models.JSONField(blank=True, db_default={}, default=dict)),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='It goes on where it was when it is resumed.')),
                ('expires_after', models.DurationField(blank=True, help_text='It is deleted unless it is renewed for so long.', null=True)),
                ('expires_at', models.DateTimeField(editable=False, null=True)),
                ('position', models.BigIntegerField(editable=False, help_text='The last event that it was matched with, unless it follows.')),
                ('follows', models.BooleanField(db_default=False, default=False, editable=False, help_text='It is where the dispatch is.')),
                ('error', models.TextField(db_default='', default='', editable=False, help_text='Why the dispatch has paused it.')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), editable=False)),
                ('declared', models.BooleanField(db_default=False, default=False, editable=False)),
                ('definition', models.TextField(db_default='', default='', editable=False)),
                ('superseded', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False)),
                ('seen_at', models.DateTimeField(editable=False, help_text='About when a worker last had it in its code.', null=True)),
                ('exact', pgqueue.models.fields.NamesField(db_default=[], default=list, editable=False)),
                ('regex', models.TextField(db_default='', default='', editable=False)),
                ('eq_path', models.TextField(db_default='', default='', editable=False)),
                ('eq_value', models.JSONField(editable=False, null=True)),
                ('path', models.TextField(db_default='', default='', editable=False)),
                ('vars', models.JSONField(db_default={}, default=dict, editable=False)),
                ('key_path', models.TextField(db_default='', default='', editable=False)),
                ('split_path', models.TextField(db_default='', default='', editable=False)),
            ],
            options={
                'db_table': 'pgqueue_subscription',
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('name', ''), _negated=True), models.Q(('channel', ''), _negated=True)), name='pgqueue_subscription_names'),
                    models.CheckConstraint(condition=models.Q(('batch__range', (1, 10000))), name='pgqueue_subscription_batch', violation_error_message='A batch has 1 to 10 000 events.'),
                    models.CheckConstraint(condition=models.Q(('priority__range', (-100, 100))), name='pgqueue_subscription_priority'),
                    models.CheckConstraint(condition=models.Q(('max_attempts__gte', 1)), name='pgqueue_subscription_attempts'),
                ],
            },
        ),
        RunSQLFile('0006_subscriptions'),
        RunSQLFile('0006_predicates'),
    ]
