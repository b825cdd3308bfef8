"""Computes the digests by which a replay finds calls and prompts: equal for equal ones, without their secrets."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Final

import msgspec

from praval_tools.schema.json_values import to_canonical_json
from praval_tools.tools.value_codec import is_plain_json, pack_value

_MAX_EXACT_INTEGER: Final = 2**53
_ENCODER: Final = msgspec.json.Encoder(order="deterministic")


def compute_digest(arguments: object) -> str:
    """Return the same digest for equal arguments, in any order of their keys, and for no others; 1.0 equals 1."""
    return blake2b(_encode_arguments(arguments), digest_size=16).hexdigest()


def compute_redacted_digest(arguments: object, clean: object, make_digest: Callable[[bytes], str]) -> str:
    """
    Return the digest by which a replay finds *arguments*, which are recorded as *clean*; others have another one.

    Where *clean* hides secrets, it is made by *make_digest*, with the journal's key: without a key, secrets could be
    guessed from it. A digest of *clean* would be the same for arguments that differ only in what is hidden.
    """
    if clean is arguments:
        return compute_digest(arguments)
    text = _encode_arguments(arguments)
    return compute_digest(clean) if text == _encode_arguments(clean) else make_digest(text)


def _encode_arguments(arguments: object) -> bytes:
    try:
        if type(arguments) is dict and not is_plain_json(arguments):
            raise TypeError("dates and the like, which the encoder would write as texts")
        text = _ENCODER.encode(arguments)
        if text.find(b".0") >= 0:  # `in` tries the text as a number first
            text = _ENCODER.encode(_normalize_whole_floats(arguments))
    except (TypeError, ValueError, OverflowError, RecursionError):  # values that are not JSON
        text = to_canonical_json(pack_value(arguments)).encode("utf-8", "surrogatepass")
    return text


def _normalize_whole_floats(value: object) -> object:
    """Return JSON with numbers that are whole as integers."""
    if type(value) is float:
        return int(value) if value.is_integer() and abs(value) < _MAX_EXACT_INTEGER else value
    if type(value) is dict:
        return {key: _normalize_whole_floats(member) for key, member in value.items()}
    return [_normalize_whole_floats(item) for item in value] if type(value) is list else value
