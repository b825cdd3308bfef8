"""Collects what is secret in one value, by its schema and by the names of its keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeAlias

from praval_tools.journal.redaction.nested_json import decode_bytes, parse_json
from praval_tools.journal.redaction.secret_tree import (
    UNKNOWN_NODES,
    SecretNode,
    get_member_nodes,
    get_text_nodes,
    list_secret_keys,
)
from praval_tools.schema.secret_names import TRAILING_PUNCTUATION, SecretNames
from praval_tools.tools.value_codec import OpaqueValue, PythonValue

Nodes: TypeAlias = tuple[SecretNode, ...]
"""What a schema says of a value: what any of them says counts."""


class SecretRules(Protocol):
    """Says what is secret."""

    secret_names: SecretNames

    def is_secret_member(self, key: object, value: PythonValue, nodes: Nodes) -> bool:
        """Tell whether *value* under *key* is a secret."""


class SecretFinder:
    """Collects the secrets in one value."""

    def __init__(self, rules: SecretRules, nodes: Nodes) -> None:
        self._rules, self._secret_member_names = rules, nodes[0].secret_member_names
        self._known_names = nodes[0].member_names
        self._secrets: list[PythonValue] = []

    def find(self, value: PythonValue, nodes: Nodes) -> list[PythonValue]:
        """Return the secrets in *value*."""
        self._search(None, value, nodes, 0)
        return self._secrets

    def _search(self, key: object, value: PythonValue, nodes: Nodes, level: int) -> None:
        """Search *value*, the member *key* of something."""
        kind = type(value)
        if self._rules.is_secret_member(key, value, nodes):
            self._secrets.append(value)
            if kind is str and nodes:  # arguments that are no JSON name their secrets all the same
                self._search_text(value, nodes, level)
        elif kind is str:
            self._search_text(value, nodes, level)
        elif kind is dict:
            if nodes:
                self._secrets += list_secret_keys(value, nodes, self._known_names)
            for step, member in value.items():
                if type(step) is not str:  # an object that can be hashed has fields, too
                    self._search(None, step, UNKNOWN_NODES, level + 1)
                key = self._rules.secret_names.get_naming_key(step, value)
                self._search(key, member, get_member_nodes(nodes, step), level + 1)
        elif kind in (list, tuple, set, frozenset):
            for index, item in enumerate_items(value, kind):
                self._search(None, item, get_member_nodes(nodes, index), level + 1)
        elif kind in (bytes, OpaqueValue):
            self._search_text(decode_bytes(value) if kind is bytes else value.text, nodes, level)

    def _search_text(self, text: str, nodes: Nodes, level: int) -> None:
        if (inner := parse_json(text, level)) is not text:
            self._search(None, inner, get_text_nodes(nodes), level + 1)
            return
        for start, end in self._rules.secret_names.find_values(text, self._secret_member_names):
            secret = text[start:end]
            self._secrets += {secret, secret.rstrip(TRAILING_PUNCTUATION)}


def enumerate_items(value: Iterable[PythonValue], kind: type) -> Iterator[tuple[int, PythonValue]]:
    """Yield the items, each with the number by which a schema knows it; the items of a set have no order."""
    return enumerate(value) if kind in (list, tuple) else ((0, item) for item in value)
