from pgqueue.management.operating import OperatingCommand
from pgqueue.states import State


class Command(OperatingCommand):
    help = "End dead letters for good."
    verb = "discard"
    done = "discarded"
    otherwise = "not dead"
    state = State.DEAD
