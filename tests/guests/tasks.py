from pgqueue import subscribe, task

received: list[int] = []


@task
def double(number: int) -> int:
    return 2 * number


@subscribe("order.*")
def note(event: object) -> None:
    """Take an event of a topic."""
