"""
Seals what a registry and its workers write into their store, so that nobody else reads it, makes it or changes it.

The cipher is Fernet (AES in CBC mode with an HMAC, https://github.com/fernet/spec): what is sealed holds what it is and
the call that it is of, so that it counts nowhere else.
"""

from __future__ import annotations

import base64
import hashlib
from typing import Final, TypeVar

import msgspec
from cryptography.fernet import Fernet, InvalidToken

from praval_tools.execution.engines.messages import read_message, write_message

_DOMAIN: Final = b"praval-tools/w/1"
_END: Final = b"\n"

T = TypeVar("T", bound=msgspec.Struct)


class AlteredError(Exception):
    """What was read is not what was sealed with this key, for this call."""


class Sealer:
    """
    Seals and opens messages.

    Args:
        key: The secret key of the store, which all of its processes have.
    """

    def __init__(self, key: bytes) -> None:
        derived = hashlib.blake2b(key, digest_size=32, person=_DOMAIN).digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(derived))

    def seal(self, call_id: str, message: msgspec.Struct) -> bytes:
        """
        Return *message*, sealed for one call.

        Raises:
            TypeError: Something in it is not JSON.
            ValueError: As `write_message` says.
        """
        return self._fernet.encrypt(_get_label(call_id, type(message)) + write_message(message))

    def open(self, call_id: str, data: bytes, kind: type[T]) -> T:
        """
        Return a message of this kind that was sealed for this call.

        Raises:
            AlteredError: It is anything else.
        """
        label = _get_label(call_id, kind)
        try:
            text = self._fernet.decrypt(data)
            if not text.startswith(label):
                raise AlteredError("it is of another call")
            return read_message(text[len(label) :], msgspec.json.Decoder(kind))
        except InvalidToken:
            raise AlteredError("it was not written with the key of this store") from None
        except ValueError as error:
            raise AlteredError(f"it is of another version of praval-tools: {error}") from error


def _get_label(call_id: str, kind: type[msgspec.Struct]) -> bytes:
    return f"{kind.__name__} {call_id}".encode() + _END
