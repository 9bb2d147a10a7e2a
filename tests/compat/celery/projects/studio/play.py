from celery import chain

from studio.celery import app
from studio.tasks import export_channel, import_channel, tell


def play():
    exported = export_channel.enqueue("ann", channel_id="c1")
    linked = chain(export_channel.s(channel_id="c2"), tell.s(user="bob"))()
    failed = import_channel.enqueue("ann", source="/none")
    return [
        exported.get(timeout=60),
        export_channel.fetch(exported.id).state,
        linked.get(timeout=60),
        repr(failed.get(timeout=60, propagate=False)),
        app.Result(exported.id).progress,
        len(exported.id),
        app.Result.mine is app,
    ]
