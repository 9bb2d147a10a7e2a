import time

from pgqueue import task


@task
def dawdle() -> None:
    """Keep a worker busy for 20 ms without taking the processor from anybody."""
    time.sleep(0.02)
