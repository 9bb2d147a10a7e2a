from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pgqueue.codec.arguments import (
    ARGUMENTS,
    PAYLOAD_LIMIT,
    PROGRESS,
    RESULT,
    RESULT_LIMIT,
    Codec,
)
from pgqueue.codec.envelope import Cipher, enclosed
from pgqueue.exceptions import InvalidProgress, InvalidResult, PayloadTooLarge, PGQueueError


class EncryptedCodec(Codec):
    """The codec of a task whose arguments, result and progress are encrypted where they are stored.

    It also reads plain values, which SQL stored, or the task before it was encrypted. The limits
    hold for what is stored, which takes a third more than the JSON.
    """

    def __init__(
        self, func: Callable[..., Any], *, skip_first: bool = False, cipher: Cipher
    ) -> None:
        super().__init__(func, skip_first=skip_first, cipher=cipher)
        self._seal = cipher.seal

    def encode(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """Return the envelope of the payload for calling the function with these arguments.

        Raises:
            InvalidArguments, InvalidArgument, PayloadTooLarge: as `Codec.encode` does.
            MissingEncryptionKey: the settings have none.
        """
        return self.closed(super().encode(args, kwargs))

    def closed(self, text: str) -> str:
        """Return the envelope of a payload.

        Raises:
            PayloadTooLarge: it takes more than `PAYLOAD_LIMIT`.
            MissingEncryptionKey: the settings have none.
        """
        return self._sealed(ARGUMENTS, text, PAYLOAD_LIMIT, PayloadTooLarge)

    def encode_result(self, value: Any) -> str:
        """Return the envelope of what the function returned.

        Raises:
            InvalidResult: it is not storable, or takes more than `RESULT_LIMIT`.
            MissingEncryptionKey: the settings have none.
        """
        return self._sealed(RESULT, super().encode_result(value), RESULT_LIMIT, InvalidResult)

    def encode_progress(self, data: Any) -> str:
        """Return the envelope of what a run of the function noted of its progress.

        Raises:
            InvalidProgress: it is not storable, or takes more than `RESULT_LIMIT`.
            MissingEncryptionKey: the settings have none.
        """
        return self._sealed(PROGRESS, super().encode_progress(data), RESULT_LIMIT, InvalidProgress)

    def _sealed(self, what: str, text: str, limit: int, refusal: type[PGQueueError]) -> str:
        envelope = enclosed(self._seal(self._name, what, text))
        self.check_size(f"the encrypted {what}", envelope, limit, refusal)
        return envelope
