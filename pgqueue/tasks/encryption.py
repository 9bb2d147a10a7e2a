"""Encrypt the arguments, results and progress of messages, with keys from the settings.

The recipe is Fernet's, of the library cryptography: AES-128 in CBC mode, authenticated by
HMAC-SHA256. `PGQUEUE["ENCRYPTION_KEYS"]` are its keys: the first one encrypts, all of them decrypt.

In front of its text, a token holds the name of its task and its part: arguments, result or
progress. So reading detects a token that was moved to another place in the database. A renamed
task also reads the tokens of its aliases.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pgqueue.codec.envelope import enclosed, token_in
from pgqueue.codec.json_text import from_json
from pgqueue.conf import settings
from pgqueue.exceptions import DecryptionFailed, MissingEncryptionKey

if TYPE_CHECKING:
    from cryptography.fernet import Fernet, MultiFernet

names: dict[str, tuple[str, ...]] = {}
"""All names of each renamed task, by each of them. `registry` fills it."""

INSTALL = "Encryption needs cryptography: pip install 'pgqueue[encryption]'."


def seal(task: str, what: str, text: str) -> str:
    """Return a text encrypted by the first key.

    Args:
        task: the name of the message's task.
        what: the part of the message: "arguments", "result" or "progress".

    Raises:
        MissingEncryptionKey: the settings have none.
        ImportError: cryptography is not installed.
    """
    keys, _ = _keys()
    return keys.encrypt(_header(task, what) + text.encode()).decode()


def unseal(task: str, what: str, token: str) -> str:
    """Return the text that `seal` encrypted for this task, by any of its names.

    Args:
        task: the name of the message's task, or one of its aliases.
        what: the part of the message, as `seal` was given it.

    Raises:
        DecryptionFailed: no key decrypts the token, or it belongs to another task or part.
        MissingEncryptionKey: the settings have none.
        ImportError: cryptography is not installed.
    """
    keys, _ = _keys()
    plain = _decrypted(keys, task, what, token)
    for header in (_header(name, what) for name in names.get(task, (task,))):
        if plain.startswith(header):
            return plain.removeprefix(header).decode()
    raise DecryptionFailed(
        f"The stored {what} of {task} was encrypted for another task, or as another part of a "
        "message: it was moved in the database. If that task was renamed, give its earlier import "
        "path to @task(aliases=…)."
    )


def enveloped(task: str, what: str, text: str) -> str:
    """Return JSON encrypted, as the JSON that is stored in its place.

    Raises:
        MissingEncryptionKey, ImportError: as `seal` does.
    """
    return enclosed(seal(task, what, text))


def opened(task: str, what: str, plain: Any) -> Any:
    """Return parsed JSON; what is encrypted is decrypted and parsed.

    Raises:
        DecryptionFailed, MissingEncryptionKey, ImportError: as `unseal` does.
    """
    token = token_in(plain)
    return plain if token is None else from_json(unseal(task, what, token))


def renewed(task: str, what: str, token: str) -> str | None:
    """Return the token re-encrypted by the first key; None: that key encrypted it already.

    Raises:
        DecryptionFailed: no key decrypts the token.
        MissingEncryptionKey: the settings have none.
        ImportError: cryptography is not installed.
    """
    keys, first = _keys()
    try:
        _decrypted(first, task, what, token)
    except DecryptionFailed:
        _decrypted(keys, task, what, token)
        return keys.rotate(token).decode()
    return None


def require() -> None:
    """Check that a key and the library are available.

    Raises:
        MissingEncryptionKey: the settings have no key.
        ImportError: cryptography is not installed.
    """
    _keys()


def is_installed() -> bool:
    """Return whether the library cryptography is installed."""
    return find_spec("cryptography") is not None


def _header(task: str, what: str) -> bytes:
    return f"{what} {task}\n".encode()


def _decrypted(keys: Any, task: str, what: str, token: str) -> bytes:
    from cryptography.fernet import InvalidToken

    try:
        plain: bytes = keys.decrypt(token)
    except (InvalidToken, ValueError):  # ValueError: the token is not base64
        raise DecryptionFailed(
            f"No key of PGQUEUE['ENCRYPTION_KEYS'] decrypts the stored {what} of {task}: its key "
            "was removed, or it was changed in the database."
        ) from None
    return plain


def _keys() -> tuple[MultiFernet, Fernet]:
    """Return all keys as one `MultiFernet`, and the first key alone."""
    keys = settings().encryption_keys
    if not keys:
        raise MissingEncryptionKey
    return _made(keys)


@lru_cache(maxsize=8)
def _made(keys: tuple[str, ...]) -> tuple[MultiFernet, Fernet]:
    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError as error:
        raise ImportError(INSTALL) from error
    each = [Fernet(key) for key in keys]
    return MultiFernet(each), each[0]
