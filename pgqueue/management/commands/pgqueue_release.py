from pgqueue.management.operating import OperatingCommand
from pgqueue.states import State


class Command(OperatingCommand):
    help = (
        "Take running messages from their workers, and make them ready for others: where a worker "
        "is known to be dead, or its run to be stuck. A run that goes on is not stopped; its "
        "result counts for nothing."
    )
    verb = "release"
    done = "released"
    otherwise = "not running"
    state = State.RUNNING
