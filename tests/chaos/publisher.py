"""Publish at a steady rate until told to stop, and write down what is known of each transaction.

Run as `python -m tests.chaos.publisher NUMBER RATE SEED`. Its output is as that of a producer.
"""

from __future__ import annotations

import random
import signal
import sys
import time

import django

from tests.chaos.producer import NUMBERS_EACH, Undone, say

KIND = "event"
KEYS = "abcdefgh"
SHAPES = {"some": 6.0, "one": 3, "many": 1}


class Publisher:
    def __init__(self, number: int, seed: str) -> None:
        self._random = random.Random(f"{seed} {number}")
        self._next = number * NUMBERS_EACH
        self.is_stopping = False

    def run(self, rate: float) -> None:
        """Go on until told to stop."""
        while not self.is_stopping:
            count = self._transact()
            time.sleep(count / rate)

    def _transact(self) -> int:
        """Publish some in one transaction, or several at once, or one alone."""
        [shape] = self._random.choices(list(SHAPES), weights=list(SHAPES.values()))
        count = {"one": 1, "many": 40}.get(shape) or self._random.randint(1, 6)
        numbers = list(range(self._next, self._next + count))
        self._next += count
        say(begun=dict.fromkeys(map(str, numbers), KIND))
        say(came=self._publish(shape, numbers))
        return count

    def _publish(self, shape: str, numbers: list[int]) -> str:
        from django.db import DatabaseError, InterfaceError, close_old_connections, transaction

        from pgqueue import publish, publish_many

        is_committing = shape != "some"
        close_old_connections()
        try:
            if shape == "many":
                publish_many([self._event(number) for number in numbers])
                return "committed"
            if shape == "one":
                topic, payload, key = self._event(numbers[0])
                publish(topic, payload, key=key)
                return "committed"
            with transaction.atomic():
                for number in numbers:
                    topic, payload, key = self._event(number)
                    publish(topic, payload, key=key)
                # While it is open, others commit what they began later.
                time.sleep(self._random.choice([0, 0, 0.02, 0.1]))
                if self._random.random() < 0.15:
                    raise Undone
                is_committing = True
        except Undone:
            return "undone"
        except (DatabaseError, InterfaceError) as error:
            say(error=f"{type(error).__name__}: {error}")
            return "unsure" if is_committing else "undone"
        return "committed"

    def _event(self, number: int) -> tuple[str, dict[str, int], str]:
        return "chaos.published", {"number": number}, self._random.choice(KEYS)


def main() -> None:
    publisher = Publisher(int(sys.argv[1]), sys.argv[3])

    def stop(*_: object) -> None:
        publisher.is_stopping = True

    signal.signal(signal.SIGTERM, stop)
    publisher.run(float(sys.argv[2]))


if __name__ == "__main__":
    django.setup()
    main()
