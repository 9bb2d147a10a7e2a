"""Receive messages of another system, each several times, and say which are committed.

Run as `python -m tests.chaos.recipient FIRST LAST SEED REST`. It receives the numbers from FIRST to
LAST in an order of its own, rests between store and commit for REST seconds at most, and says each
number twice: when it is stored, and when that is committed.
"""

from __future__ import annotations

import random
import sys
import time

import django

TIMES = 3


def main(first: int, last: int, seed: str, rest: float) -> None:
    from django.db import transaction

    from pgqueue import receive_external
    from tests.chaos.exchange.events import handle

    chance = random.Random(seed)
    numbers = [number for number in range(first, last + 1) for _ in range(TIMES)]
    chance.shuffle(numbers)
    for number in numbers:
        to = handle if number % 2 else "external.made"
        with transaction.atomic():
            is_new = bool(receive_external(f"m-{number}", to, number, source="elsewhere"))
            print("stored" if is_new else "known", number, flush=True)
            time.sleep(chance.uniform(rest / 2, rest))
        print("committed", number, flush=True)
    print("done", flush=True)


if __name__ == "__main__":
    django.setup()
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
