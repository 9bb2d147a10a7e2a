"""What the data pipeline needs: how far it has read the logs, and what it writes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0003_functions'),
    ]

    operations = [
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
        migrations.CreateModel(
            name='Export',
            fields=[
                ('target', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('batch', models.BigIntegerField()),
                ('txid', models.BigIntegerField()),
                ('message_id', models.BigIntegerField()),
                ('exported_at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_export',
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
            ],
            options={
                'db_table': 'pgqueue_staged',
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
    ]
