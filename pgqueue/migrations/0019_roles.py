"""What each role may do, in functions of the database."""

from django.db import migrations, models

import pgqueue.models.fields
from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0017_members'),
    ]

    operations = [
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
        RunSQLFile('0019_roles'),
    ]
