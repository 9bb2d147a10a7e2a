"""How far events were exported, and events that Spark publishes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0007_tracking'),
    ]

    operations = [
        migrations.AddField(
            model_name='export',
            name='event_batch',
            field=models.BigIntegerField(db_default=-1),
        ),
        migrations.AddField(
            model_name='export',
            name='event_position',
            field=models.BigIntegerField(db_default=0, help_text='Events up to this one are there.'),
        ),
        migrations.AddField(
            model_name='staged',
            name='topic',
            field=models.TextField(db_collation='C', null=True),
        ),
    ]
