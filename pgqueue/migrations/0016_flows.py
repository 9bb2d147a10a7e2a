"""Messages that wait for other messages of their flow."""

from django.db import migrations, models

import pgqueue.models.fields
import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0015_counts'),
    ]

    operations = [
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
            name='Flow',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.TextField(verbose_name='name')),
                ('handler_id', models.BigIntegerField(blank=True, help_text='The message that runs when all others have ended.', null=True, verbose_name='handler id')),
                ('created_at', models.DateTimeField(db_default=pgqueue.models.fields.StatementTimestamp(), verbose_name='created at')),
                ('ended_at', models.DateTimeField(blank=True, help_text='When a duty found that none of its messages is left.', null=True, verbose_name='ended at')),
            ],
            options={
                'db_table': 'pgqueue_flow',
                'default_permissions': ('view',),
                'verbose_name': 'flow',
                'verbose_name_plural': 'flows',
            },
        ),
        migrations.AddField(
            model_name='bell',
            name='ended',
            field=pgqueue.models.fields.IdsField(help_text='Messages of flows that ended or died: not a lane is meant, but their children.', null=True),
        ),
        migrations.AddField(
            model_name='history',
            name='flow_id',
            field=models.BigIntegerField(null=True, verbose_name='flow id'),
        ),
        migrations.AddField(
            model_name='message',
            name='flow_id',
            field=models.BigIntegerField(blank=True, null=True, verbose_name='flow id'),
        ),
        migrations.AddIndex(
            model_name='message',
            index=models.Index(condition=models.Q(('flow_id__isnull', False)), fields=['flow_id', 'id'], name='pgqueue_message_flow'),
        ),
        migrations.AddIndex(
            model_name='blocked',
            index=models.Index(fields=['watched_id'], name='pgqueue_blocked_watched'),
        ),
        migrations.AddConstraint(
            model_name='blocked',
            constraint=models.CheckConstraint(condition=models.Q(('on_failure__in', ['wait', 'cancel', 'run'])), name='pgqueue_blocked_on_failure'),
        ),
        migrations.AddIndex(
            model_name='dependency',
            index=models.Index(fields=['parent_id'], name='pgqueue_dependency_parent'),
        ),
        migrations.AddIndex(
            model_name='flow',
            index=models.Index(condition=models.Q(('ended_at', None)), fields=['created_at'], name='pgqueue_flow_living'),
        ),
        migrations.AddIndex(
            model_name='flow',
            index=models.Index(condition=models.Q(('ended_at__isnull', False)), fields=['ended_at'], name='pgqueue_flow_ended'),
        ),
        RunSQLFile('0016_flows'),
    ]
