"""Subscriptions whose messages are posted to URLs."""

import uuid

import django.db.models.deletion
from django.db import migrations, models

import pgqueue.options.webhook_options
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0009_feed'),
    ]

    operations = [
        migrations.CreateModel(
            name='Webhook',
            fields=[
                ('subscription', models.OneToOneField(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, parent_link=True, primary_key=True, related_name='webhook', serialize=False, to='pgqueue.subscription')),
                ('url', models.TextField(help_text='https://example.com/hooks', verbose_name='URL')),
                ('secret', models.TextField(blank=True, default=pgqueue.options.webhook_options.new_secret, help_text='What posts are signed with: whsec_ and base64. Empty: a new one.')),
                ('rotated', models.JSONField(db_default=[], default=list, editable=False, help_text='Secrets before this one, and until when posts are signed with them, too.')),
                ('headers', models.JSONField(blank=True, db_default={}, default=dict, help_text='What is sent with each post.')),
                ('enabled', models.BooleanField(db_default=True, default=True, help_text='If not, nothing is posted; what happens meanwhile is skipped.')),
                ('cloudevents', models.BooleanField(db_default=False, default=False, help_text='Post CloudEvents, as JSON.', verbose_name='CloudEvents')),
                ('gzip', models.BooleanField(db_default=True, default=True, help_text='Compress bodies of 1 KiB or more.')),
                ('serializer', models.TextField(blank=True, db_default='', default='', help_text='The import path of a function that makes the body.')),
                ('timeout', models.DurationField(blank=True, help_text='How long a post may take. Empty: as PGQUEUE says.', null=True)),
                ('backoff', models.JSONField(blank=True, help_text='Seconds to wait after each failure: [10, 60, 3600], or {"base": 10, "cap": 3600}. Empty: as PGQUEUE says.', null=True)),
                ('salt', models.UUIDField(default=uuid.uuid4, editable=False, help_text='A part of each webhook-id.')),
                ('failures', models.IntegerField(db_default=0, default=0, editable=False, help_text='Noted since the last success: at most one a second by each worker.')),
                ('failing_since', models.DateTimeField(editable=False, null=True)),
            ],
            options={
                'db_table': 'pgqueue_webhook',
                'permissions': [('operate_webhook', 'Can rotate, resume and test webhooks')],
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('url', ''), _negated=True), models.Q(('secret', ''), _negated=True)), name='pgqueue_webhook_texts'),
                ],
            },
            bases=('pgqueue.subscription',),
        ),
        RunSQLFile('0010_webhooks'),
    ]
