"""The steps of durable tasks, and the signals that they wait for."""

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0008_roles'),
    ]

    operations = [
        migrations.AddField(
            model_name='bell',
            name='woken',
            field=pgqueue.models.fields.IdsField(help_text='Messages that got a signal, or wait for one since now.', null=True),
        ),
        migrations.AddField(
            model_name='history',
            name='steps',
            field=models.JSONField(help_text='The steps of a durable task, and its signals.', null=True, verbose_name='steps'),
        ),
        migrations.CreateModel(
            name='EventWait',
            fields=[
                ('pk', models.CompositePrimaryKey('message_id', 'step', blank=True, editable=False, primary_key=True, serialize=False)),
                ('message_id', models.BigIntegerField()),
                ('step', models.TextField(db_collation='C')),
                ('topic', models.TextField(db_collation='C')),
                ('key', models.TextField(db_collation='C', null=True)),
                ('path', models.TextField(db_default='')),
                ('vars', models.JSONField(db_default={})),
                ('position', models.BigIntegerField(help_text='The end of the log when it began.')),
            ],
            options={
                'db_table': 'pgqueue_event_wait',
                'default_permissions': (),
                'indexes': [models.Index(fields=['topic', 'key'], name='pgqueue_event_wait_topic'), models.Index(fields=['position'], name='pgqueue_event_wait_position')],
            },
        ),
        migrations.CreateModel(
            name='Step',
            fields=[
                ('pk', models.CompositePrimaryKey('message_id', 'name', blank=True, editable=False, primary_key=True, serialize=False)),
                ('message_id', models.BigIntegerField(verbose_name='message id')),
                ('started_at', models.DateTimeField(verbose_name='started at')),
                ('finished_at', models.DateTimeField(null=True, verbose_name='finished at')),
                ('until', models.DateTimeField(null=True, verbose_name='until')),
                ('number', models.IntegerField(verbose_name='number')),
                ('attempt', models.IntegerField(verbose_name='attempt')),
                ('tries', models.IntegerField(verbose_name='tries')),
                ('name', models.TextField(db_collation='C', verbose_name='name')),
                ('kind', models.TextField(choices=[('step', 'Step'), ('atomic', 'Atomic step'), ('value', 'Value'), ('sleep', 'Sleep'), ('signal', 'Signal'), ('event', 'Event'), ('call', 'Call')], verbose_name='kind')),
                ('state', models.TextField(choices=[('done', 'Done'), ('failed', 'Failed'), ('retrying', 'Retrying'), ('waiting', 'Waiting')], verbose_name='state')),
                ('function', models.TextField(db_default='', verbose_name='function')),
                ('signals', pgqueue.models.fields.NamesField(help_text='The names of the signals that it waits for.', null=True, verbose_name='signals')),
                ('result', models.JSONField(null=True, verbose_name='result')),
                ('error', models.JSONField(null=True, verbose_name='error')),
                ('unvisited', models.BooleanField(db_default=False, help_text='The last run did not call it: its code may no longer have the step.', verbose_name='unvisited')),
            ],
            options={
                'verbose_name': 'step',
                'verbose_name_plural': 'steps',
                'db_table': 'pgqueue_step',
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('state__in', ['retrying', 'waiting'])), fields=['kind', 'started_at'], name='pgqueue_step_open')],
                'constraints': [models.CheckConstraint(condition=models.Q(('kind__in', ['step', 'atomic', 'value', 'sleep', 'signal', 'event', 'call'])), name='pgqueue_step_kind'), models.CheckConstraint(condition=models.Q(('state__in', ['done', 'failed', 'retrying', 'waiting'])), name='pgqueue_step_state'), models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pgqueue_step_name')],
            },
        ),
        migrations.CreateModel(
            name='StoredSignal',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('message_id', models.BigIntegerField()),
                ('sent_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp())),
                ('name', models.TextField(db_collation='C')),
                ('dedupe_id', models.TextField(db_collation='C', null=True)),
                ('sender_id', models.BigIntegerField(help_text='The message whose run has sent it.', null=True)),
                ('taken_by', models.TextField(db_collation='C', null=True)),
                ('payload', models.JSONField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_signal',
                'default_permissions': (),
                'indexes': [models.Index(fields=['message_id', 'id'], name='pgqueue_signal_message'), models.Index(condition=models.Q(('taken_by__isnull', True)), fields=['message_id', 'name', 'id'], name='pgqueue_signal_untaken'), models.Index(condition=models.Q(('sender_id__isnull', False)), fields=['sender_id', 'id'], name='pgqueue_signal_sender')],
                'constraints': [models.CheckConstraint(condition=models.Q(('name', ''), _negated=True), name='pgqueue_signal_name'), models.UniqueConstraint(condition=models.Q(('dedupe_id__isnull', False)), fields=('message_id', 'dedupe_id'), name='pgqueue_signal_once')],
            },
        ),
        RunSQLFile('0009_durable'),
    ]
