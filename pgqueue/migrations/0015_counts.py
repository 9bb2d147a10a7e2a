"""Runs that were lost or handed back, and batches of counts that are stored once."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0014_names'),
    ]

    operations = [
        migrations.CreateModel(
            name='TallyBatch',
            fields=[
                ('source', models.UUIDField(primary_key=True, serialize=False)),
                ('number', models.BigIntegerField()),
                ('at', models.DateTimeField()),
            ],
            options={
                'db_table': 'pgqueue_tally_batch',
                'default_permissions': (),
            },
        ),
        migrations.AddField(
            model_name='statistic',
            name='lost',
            field=models.BigIntegerField(db_default=0, help_text='Runs whose worker died.'),
        ),
        migrations.AddField(
            model_name='statistic',
            name='released',
            field=models.BigIntegerField(db_default=0, help_text='Runs that were handed back.'),
        ),
        migrations.AddField(
            model_name='tally',
            name='lost',
            field=models.BigIntegerField(db_default=0, help_text='Runs whose worker died.'),
        ),
        migrations.AddField(
            model_name='tally',
            name='released',
            field=models.BigIntegerField(db_default=0, help_text='Runs that were handed back.'),
        ),
        migrations.AddField(
            model_name='total',
            name='lost',
            field=models.BigIntegerField(db_default=0, help_text='Runs whose worker died.'),
        ),
        migrations.AddField(
            model_name='total',
            name='released',
            field=models.BigIntegerField(db_default=0, help_text='Runs that were handed back.'),
        ),
        RunSQLFile('0015_counts'),
    ]
