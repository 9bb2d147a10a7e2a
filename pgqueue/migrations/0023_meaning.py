"""Numbers and typed values have one meaning in all that evaluates filters."""

from typing import Any

from django.db import migrations

from pgqueue.exceptions import PGQueueError
from pgqueue.options.filters import Filter, compiled
from pgqueue.migrations.sql import RunSQLFile


def compile_anew(apps: Any, schema_editor: Any) -> None:
    """Compile the conditions of subscriptions again. Those in code are declared anew by workers.

    A row whose filter is invalid stays as it is, and the dispatch says so as before.
    """
    rows = apps.get_model('pgqueue', 'Subscription')._default_manager.using(schema_editor.connection.alias)
    # Without their times, which Python may be unable to read.
    for pk, topics, where, key, split_by in rows.exclude(where={}).values_list('pk', 'topics', 'where', 'key', 'split_by'):
        try:
            columns = compiled(Filter(tuple(topics), where), key=key, split_by=split_by)
        except PGQueueError:
            continue
        rows.filter(pk=pk).update(**{name: columns[name] for name in ('eq_path', 'eq_value', 'path', 'vars')})


class Migration(migrations.Migration):

    dependencies = [
        ('pgqueue', '0020_group_losses'),
    ]

    operations = [
        RunSQLFile('0023_meaning'),
        # Undone, the older code goes on with these paths: they need no function of the database.
        migrations.RunPython(compile_anew, migrations.RunPython.noop),
    ]
