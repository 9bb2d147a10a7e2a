"""Scenarios as plain data, and the canvases that are made of them.

["add", 1, {"si": True}] is a task; ["chain", …], ["group", …] and ["chord", header, body] put these
together. A dict at the end has options.
"""

from compared import jobs

ERRBACKS = {"new": "errback", "old": "old_errback", "bound": "bound_errback"}


def made(spec, tag):
    """Return the signature that a list describes."""
    kind, *parts = spec
    options = dict(parts.pop()) if parts and isinstance(parts[-1], dict) else {}
    errback, link = options.pop("errback", None), options.pop("link", None)
    if kind in jobs.CANVASES:
        if kind == "chord":
            header, body = parts
            header = [made(each, tag) for each in header] if isinstance(header[0], list) \
                else made(header, tag)  # fmt: skip
            found = jobs.chord(header, made(body, tag))
        else:
            found = jobs.CANVASES[kind](*[made(each, tag) for each in parts])
    else:
        given = {"tag": tag, **options.pop("kwargs", {})}
        is_immutable = options.pop("si", False)
        found = getattr(jobs, kind).signature(tuple(parts), given, immutable=is_immutable)
    if options:
        found.set(**options)
    if errback:
        found.on_error(getattr(jobs, ERRBACKS[errback]).s(tag=tag))
    if link:
        found.link(made(link, tag))
    return found
