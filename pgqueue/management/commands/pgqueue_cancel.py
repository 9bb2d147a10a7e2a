from pgqueue.management.operating import OperatingCommand


class Command(OperatingCommand):
    help = "End messages as cancelled; ask those that run to stop: their end decides."
    verb = "cancel"
    done = "cancelled"
    otherwise = "had already ended"
