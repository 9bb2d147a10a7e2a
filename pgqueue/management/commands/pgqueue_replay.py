from pgqueue.management.operating import OperatingCommand
from pgqueue.states import State


class Command(OperatingCommand):
    help = "Make dead letters ready, with all attempts again."
    verb = "replay"
    done = "replayed"
    otherwise = "not dead"
    state = State.DEAD
