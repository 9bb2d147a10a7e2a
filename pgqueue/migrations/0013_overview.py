"""The permission of the admin's overview."""

from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0012_schedule_recent'),
    ]

    operations = [
        migrations.CreateModel(
            name='Overview',
            fields=[
            ],
            options={
                'verbose_name': 'overview',
                'verbose_name_plural': 'overview',
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('pgqueue.worker',),
        ),
    ]
