"""Names of Celery's worker, for other packages."""
