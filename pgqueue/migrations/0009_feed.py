"""Readers that the WAL feed notifies."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0008_event_exports'),
    ]

    operations = [
        migrations.AddField(
            model_name='reader',
            name='feed_until',
            field=models.DateTimeField(help_text='The same, but it is the WAL feed that notifies it.', null=True),
        ),
    ]
