"""Workers on a Spark cluster: each is a task of a Spark job that runs for long.

    pool        where the supervisor's workers run: on the cluster
    jobs        one job of Spark's, with one worker
    host        what runs in it, on an executor
    driver      how a worker there learns from the database that it is to stop
    presence    the driver's row in the database, which says so
    backlog     whether more workers are wanted
    sessions    the session of Spark

Nothing is imported here: executors import `host` before Django is set up.
"""
