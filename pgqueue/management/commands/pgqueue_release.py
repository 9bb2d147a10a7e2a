from pgqueue.management.operating import OperatingCommand
from pgqueue.states import State


class Command(OperatingCommand):
    help = (
        "Take running messages from their workers, and make them ready for others. Use it if a "
        "worker is dead, or a run is stuck. A run that goes on is not stopped, but its result is "
        "ignored."
    )
    verb = "release"
    done = "released"
    otherwise = "not running"
    state = State.RUNNING
