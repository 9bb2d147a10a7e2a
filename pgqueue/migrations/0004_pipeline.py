"""What the data pipeline needs to know of the logs that it follows."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0003_functions'),
    ]

    operations = [
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
    ]
