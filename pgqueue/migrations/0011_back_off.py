"""The end of a channel's pause, and pauses of keys and tasks."""

from django.db import migrations, models

from pgqueue.migrations.sql import RunSQLFile


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0010_run_logs'),
    ]

    operations = [
        migrations.AddField(
            model_name='channel',
            name='paused_until',
            field=models.DateTimeField(blank=True, help_text='When the pause ends by itself. Empty: when it is resumed.', null=True, verbose_name='paused until'),
        ),
        migrations.AddField(
            model_name='lane',
            name='paused_until',
            field=models.DateTimeField(help_text='Before this time no message starts: a task was told to wait.', null=True),
        ),
        migrations.AddIndex(
            model_name='lane',
            index=models.Index(condition=models.Q(('paused_until__isnull', False)), fields=['channel', 'key'], name='pgqueue_lane_paused'),
        ),
        migrations.CreateModel(
            name='TaskPause',
            fields=[
                ('task', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('until', models.DateTimeField(help_text='Before this time no message of the task starts.')),
            ],
            options={
                'db_table': 'pgqueue_task_pause',
                'default_permissions': (),
            },
        ),
        RunSQLFile('0011_back_off'),
    ]
