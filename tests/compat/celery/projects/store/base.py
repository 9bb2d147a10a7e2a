from celery import Task


class ReplicaTask(Task):
    """Knows whether it reads from a replica."""

    allow_replica = True

    def __call__(self, *args, **kwargs):
        self.replica = self.allow_replica
        return super().__call__(*args, **kwargs)
