"""Names of Celery's result backends, for other packages."""
