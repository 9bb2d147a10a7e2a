import datetime
import pgqueue.models.names
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0003_lanes'),
    ]

    operations = [
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('name', models.TextField(db_collation='C', primary_key=True, serialize=False)),
                ('task', models.TextField(help_text='The import path of the task.')),
                ('cron', models.TextField(blank=True, db_default='', default='', help_text='Minute, hour, day of the month, month, day of the week; or @daily, …', verbose_name='cron line')),
                ('every', models.DurationField(blank=True, help_text='Instead of a line: an interval, 00:05:00.', null=True)),
                ('timezone', models.TextField(db_default='UTC', default='UTC', help_text='That the line is meant in: Europe/Berlin.')),
                ('args', models.JSONField(blank=True, db_default=[], default=list)),
                ('kwargs', models.JSONField(blank=True, db_default={}, default=dict)),
                ('channel', models.TextField(blank=True, db_collation='C', db_default='', default='', help_text="If not the task's.")),
                ('priority', models.SmallIntegerField(blank=True, help_text="If not the task's.", null=True)),
                ('missed', models.TextField(choices=[('skip', 'Skip them'), ('once', 'One message for all of them'), ('all', 'One message for each')], db_default='once', default='once', help_text='What becomes of ticks that came while no worker was there.')),
                ('overlap', models.TextField(choices=[('allow', 'Let them run at once'), ('skip', 'Skip the tick'), ('one', 'Queue behind it')], db_default='allow', default='allow', help_text='What to do while the message of an earlier tick waits or runs.')),
                ('paused', models.BooleanField(db_default=False, default=False, help_text='It enqueues nothing.')),
                ('next_at', models.DateTimeField(editable=False, help_text='The first tick that was not done. Null: the next one from now.', null=True)),
                ('ticked_at', models.DateTimeField(editable=False, help_text='The last tick that had a message.', null=True)),
                ('message_id', models.BigIntegerField(editable=False, help_text='That message.', null=True)),
                ('error', models.TextField(db_default='', default='', editable=False, help_text='Why the last tick had none.')),
                ('declared', models.BooleanField(db_default=False, default=False, editable=False, help_text='It is written in code.')),
                ('definition', models.TextField(db_default='', default='', editable=False, help_text='What code says, as a digest.')),
                ('superseded', pgqueue.models.names.NamesField(db_default=[], default=list, editable=False, help_text='What code said before, newest first.')),
                ('seen_at', models.DateTimeField(editable=False, help_text='When a worker last had it in its code, roughly.', null=True)),
            ],
            options={
                'db_table': 'pgqueue_schedule',
                'indexes': [models.Index(models.OrderBy(models.F('next_at'), nulls_first=True), condition=models.Q(('paused', False)), name='pgqueue_schedule_due')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(models.Q(('cron', ''), _negated=True), ('every', None)), models.Q(('cron', ''), ('every__isnull', False)), _connector='OR'), name='pgqueue_schedule_when', violation_error_message='Give a cron line, or an interval.'), models.CheckConstraint(condition=models.Q(('every__range', (datetime.timedelta(seconds=1), datetime.timedelta(days=366)))), name='pgqueue_schedule_every', violation_error_message='every must be a second or more, and a year at most.'), models.CheckConstraint(condition=models.Q(('missed__in', ['skip', 'once', 'all'])), name='pgqueue_schedule_missed'), models.CheckConstraint(condition=models.Q(('overlap__in', ['allow', 'skip', 'one'])), name='pgqueue_schedule_overlap')],
            },
        ),
    ]
