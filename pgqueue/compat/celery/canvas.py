"""Combined signatures, under the name of Celery's module."""

from pgqueue.compat.celery import absent
from pgqueue.compat.celery.combining import chain, chord, group
from pgqueue.compat.celery.maps import chunks, xmap, xstarmap
from pgqueue.compat.celery.signatures import Signature, maybe_signature, signature

__all__ = [
    "Signature",
    "chain",
    "chord",
    "chunks",
    "group",
    "maybe_signature",
    "signature",
    "xmap",
    "xstarmap",
]


__getattr__ = absent.names_of(__name__)
