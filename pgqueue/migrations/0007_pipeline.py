"""What the data pipeline has exported and writes, and which database that is."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0006_statistics'),
    ]

    operations = [
        migrations.CreateModel(
            name='Export',
            fields=[
                ('target', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('batch', models.BigIntegerField()),
                ('txid', models.BigIntegerField()),
                ('message_id', models.BigIntegerField()),
                ('event_batch', models.BigIntegerField(db_default=-1)),
                ('event_position', models.BigIntegerField(db_default=0, help_text='Events up to this one are there.')),
                ('exported_at', models.DateTimeField()),
                ('database', models.TextField(db_default='', help_text='Where the rows are from: see engine/identity.')),
            ],
            options={
                'db_table': 'pgqueue_export',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Write',
            fields=[
                ('app_id', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('version', models.BigIntegerField(help_text='Of a stream, the number of its batch.')),
                ('origin', models.TextField(help_text="The checkpoint of a stream; '' for a single write.")),
                ('rows', models.BigIntegerField()),
                ('committed_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_write',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Staged',
            fields=[
                ('pk', models.CompositePrimaryKey('attempt', 'number', blank=True, editable=False, primary_key=True, serialize=False)),
                ('attempt', models.BigIntegerField(help_text='Of a task of Spark: milliseconds since 1970, times 2^22, and a random number.')),
                ('number', models.BigIntegerField(help_text="The row's place in what the attempt wrote.")),
                ('message_id', models.BigIntegerField(help_text='For a verb; all else is null then.', null=True)),
                ('channel', models.TextField(db_collation='C', null=True)),
                ('key', models.TextField(db_collation='C', null=True)),
                ('task', models.TextField(null=True)),
                ('payload', models.JSONField(null=True)),
                ('body', models.BinaryField(null=True)),
                ('metadata', models.JSONField(null=True)),
                ('priority', models.SmallIntegerField(null=True)),
                ('max_attempts', models.IntegerField(null=True)),
                ('run_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('ordered', models.BooleanField(null=True)),
                ('dedupe_key', models.TextField(db_collation='C', null=True)),
                ('topic', models.TextField(db_collation='C', null=True)),
            ],
            options={
                'db_table': 'pgqueue_staged',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Backfill',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('task', models.TextField()),
                ('source', models.TextField(help_text='What the rows were read from.')),
                ('attempts', models.JSONField(help_text='Of the staged rows, in their order.')),
                ('place', models.IntegerField(db_default=0, help_text='Of the attempt that is next.')),
                ('number', models.BigIntegerField(db_default=0, help_text='Of its row that is next.')),
                ('done', models.BigIntegerField(db_default=0)),
                ('total', models.BigIntegerField()),
                ('created_at', models.DateTimeField()),
                ('ended_at', models.DateTimeField(null=True)),
            ],
            options={
                'db_table': 'pgqueue_backfill',
                'default_permissions': (),
            },
        ),
        RunSQLFile('0007_pipeline'),
    ]
