from pgqueue.management.operating import OperatingCommand
from pgqueue.states import State


class Command(OperatingCommand):
    help = (
        "End messages as cancelled; ask running messages to stop: the outcome of their run then "
        "counts. Dead letters stay: pgqueue_discard ends them."
    )
    verb = "cancel"
    done = "cancelled"
    otherwise = "had already ended, or are dead"
    states = tuple(state for state in State if state != State.DEAD)
