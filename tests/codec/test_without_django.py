"""The codec where no Django is installed, as on Spark's executors."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pgqueue

WITHOUT_DJANGO = """
    import sys

    class NoDjango:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("django", "asgiref"):
                raise ModuleNotFoundError(f"{name} is not installed", name=name)

    sys.meta_path.insert(0, NoDjango())
"""


def run(script: str) -> None:
    """Run a script where Django can't be imported; fail if it does."""
    root = Path(pgqueue.__file__).parent.parent
    source = textwrap.dedent(WITHOUT_DJANGO) + textwrap.dedent(script)
    made = subprocess.run([sys.executable, "-c", source], cwd=root, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr


def test_each_module_of_the_codec_is_imported() -> None:
    run("""
        import pkgutil
        from importlib import import_module

        import pgqueue
        import pgqueue.codec
        import pgqueue.exceptions
        import psycopg

        names = [each.name for each in pkgutil.iter_modules(pgqueue.codec.__path__)]
        assert {"arguments", "encoding", "hints", "raw", "scalars"} <= set(names)
        for name in names:
            import_module(f"pgqueue.codec.{name}")
    """)


def test_arguments_and_results_are_written_and_read() -> None:
    run("""
        from dataclasses import dataclass
        from datetime import datetime
        from enum import Enum

        from pgqueue.codec.arguments import Codec

        @dataclass
        class Order:
            id: int
            at: datetime

        class Size(Enum):
            LARGE = "large"

        class Thing: ...

        def task(a: int, b: Thing, c: list[Order], d: Size) -> Order: ...

        codec = Codec(task)
        order = Order(7, datetime(2030, 1, 1))
        given = [1, {2}, [order], Size.LARGE]
        assert codec.decode(codec.encode(given, {})) == (given, {})
        assert codec.decode_result(codec.encode_result(order)) == order
    """)


def test_raw_payloads_are_written_and_read() -> None:
    run("""
        from pgqueue.codec import raw

        text = raw.encode("the payload", {"ids": {1, 2}})
        assert raw.decode("the payload", text.encode()) == {"ids": {1, 2}}
    """)


def test_what_cannot_be_written_is_refused_as_ever() -> None:
    run("""
        from pgqueue.codec.arguments import Codec
        from pgqueue.exceptions import InvalidArgument

        def task(thing: object): ...

        try:
            Codec(task).encode([object()], {})
        except InvalidArgument as error:
            assert "is a object, which JSON can't say" in str(error)
        else:
            raise AssertionError("it was written")
    """)
