"""What pgqueue costs: each module here is a benchmark, and its name is what one asks for.

    python -m tests.benchmarks                        all, at the sizes of the docs; RESULTS.md
    python -m tests.benchmarks drain --format json    one
    python -m tests.benchmarks drain --messages 1000000 --rounds 1

A benchmark measures us and a ceiling in turns, several rounds, each on fresh tables, and
reports medians: where the machine or the server is slow, the ceiling is, too. Nothing else
should run beside it. A new one is a new file with

    SIZES = (200_000,)                                     messages: what the whole run measures
    def measure(*, messages: int, rounds: int) -> Report

and, if it has something to keep to, a line in `harness/musts.py`.
"""
