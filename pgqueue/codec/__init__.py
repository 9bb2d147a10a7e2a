"""Values as JSON, and back: arguments, results, progress, and raw payloads.

Nothing here imports Django or needs its settings: programs without it, such as Spark's executors,
read and write payloads, too. Higher rooms register the types that need Django, such as model
instances, by `encoding.register_forms`; projects register their own by `register`.

`arguments` encodes the calls of a function; `raw`, values without one. Both use `encoding`, which
chooses the form of a value by its type and its type hint (`hints`). `scalars`, `forms`,
`field_forms` and `coded_forms` have the forms.
"""

from pgqueue.codec.own_types import register

__all__ = ["register"]
