"""Workers on a Spark cluster: each is the task of a long Spark job.

    pool        the supervisor's workers on the cluster
    jobs        one Spark job, with one worker
    host        the function of the job, on an executor
    driver      the worker's look for a request to stop, in the driver's row
    presence    the driver's row in the database
    backlog     the number of wanted workers
    sessions    the Spark session

This module imports nothing, since executors import `host` before Django is set up.
"""
