"""Finds out from a JSON Schema where its values hold secrets, and where they can hold no text at all."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import Factory, define, field

from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.schema_tree import get_item_name, iter_schemas
from praval_tools.schema.secret_marks import has_secret_schema, marks_secret
from praval_tools.schema.secret_names import is_amount
from praval_tools.tools.value_codec import PythonValue

_TEXTLESS_TYPES: Final = frozenset({"number", "integer", "boolean", "null"})
_FIXED_FORMATS: Final = frozenset({"date-time", "date", "time", "duration", "uuid"})
_BRANCH_KEYWORDS: Final = ("anyOf", "oneOf", "allOf")
_ITEM_KEYWORDS: Final = ("items", "additionalItems", "unevaluatedItems", "contains")
_MEMBER_KEYWORDS: Final = ("additionalProperties", "unevaluatedProperties")
_CONDITION_KEYWORDS: Final = ("then", "else", "if", "not", "contentSchema")
"""What else a value may fit; what a text of JSON holds is searched as if it stood in its place."""
_DEPENDENT_KEYWORDS: Final = ("dependentSchemas", "dependencies")
_REFERENCE_KEYWORDS: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_ANCHOR_KEYWORDS: Final = ("$anchor", "$dynamicAnchor", "$id", "id")
_CONTAINER_TYPES: Final[Mapping[object, type]] = {"object": dict, "array": list}
_MAX_NESTING: Final = 32

_Schema = Mapping[str, Any]


@define(eq=False)
class SecretNode:
    """
    What a schema says about the values at one place: whether they are secret, and the nodes of their members.

    Args:
        secret: The value is secret, whatever it is.
        textless: The value holds no text that anybody could choose, so it need not be searched.
        secret_keys: The keys of the value are secret.
        contains_secrets: Something inside is secret, or what does not fit there may be.
        secret_member_names: The keys of what is secret anywhere inside; for text that should be JSON and is not.
        member_names: All keys that the schema names; others in a secret value are secret, too. Only of a root.
        named_items: The items of an array that the schema tells apart, at most. Only of a root.
        hides_unknown_keys: Unknown keys may be those of a secret dict whose own level was left out.
        container_types: The containers, dict and list, that fit here; others may be misplaced. None where not known.
        is_closed: Members that the schema does not name do not fit.
        alternatives: Nodes that describe the same value, too.
        closure: This node and its alternatives, and theirs.
    """

    secret: bool = False
    textless: bool = False
    secret_keys: bool = False
    contains_secrets: bool = False
    secret_member_names: frozenset[str] = frozenset()
    member_names: frozenset[str] | None = None
    named_items: int = 0
    hides_unknown_keys: bool = False
    container_types: frozenset[type] | None = None
    is_closed: bool = False
    members: dict[str | int, SecretNode] = field(factory=dict)
    items: SecretNode | None = None
    additional: SecretNode | None = None
    alternatives: list[SecretNode] = field(factory=list)
    closure: tuple[SecretNode, ...] = Factory(lambda node: (node,), takes_self=True)


UNKNOWN_NODES: Final = (SecretNode(),)
"""Nothing is known: only names of keys say what is secret."""

_SECRET_NODES: Final = (SecretNode(secret=True),)


def get_member_nodes(nodes: Iterable[SecretNode], step: str | int) -> tuple[SecretNode, ...]:
    """Return the nodes of the member *step* of a value that any of *nodes* may describe, each once."""
    members: dict[SecretNode, None] = {}
    is_closed = False
    for node in dict.fromkeys(_iter_closures(nodes)):  # else their number would grow at every level of a value
        is_closed = is_closed or node.is_closed
        member = node.members.get(step) or (node.items if type(step) is int else None) or node.additional
        if member is not None:
            members.update(dict.fromkeys(member.closure))
    return tuple(members) or (_SECRET_NODES if is_closed else ())


def is_secret(nodes: Iterable[SecretNode]) -> bool:
    """Tell whether a value that any of *nodes* may describe is secret."""
    return any(node.secret for node in _iter_closures(nodes))


def is_misplaced(kind: type, nodes: Iterable[SecretNode]) -> bool:
    """Tell whether a value of *kind* is a container where none like it fits, or stands for one that has secrets."""
    known = [node for node in _iter_closures(nodes) if node.container_types is not None]
    container = list if kind in (list, tuple, set, frozenset) else kind
    if container in (dict, list):
        return bool(known) and not any(container in (node.container_types or ()) for node in known)
    return any(node.container_types and node.contains_secrets for node in known)


def get_text_nodes(nodes: tuple[SecretNode, ...]) -> tuple[SecretNode, ...]:
    """
    Return the nodes of what a text holds as JSON, of the *nodes* of the text itself.

    They are the same where a container fits there, too, or secrets are in it; where only a text fits, none are known.
    """
    closures = list(_iter_closures(nodes))
    takes_others = any(node.container_types or node.contains_secrets for node in closures)
    return nodes if takes_others or all(node.container_types is None for node in closures) else UNKNOWN_NODES


def list_secret_keys(
    value: Mapping[PythonValue, PythonValue], nodes: Iterable[SecretNode], known_names: Container[PythonValue] | None
) -> Iterable[PythonValue]:
    """Return the keys of *value*, which any of *nodes* may describe, that are secret, or may be."""
    if any(node.secret_keys for node in _iter_closures(nodes)):
        return value.keys()
    if known_names is not None and any(node.hides_unknown_keys for node in _iter_closures(nodes)):
        return [key for key in value if key not in known_names]
    return ()


def is_known(nodes: Iterable[SecretNode], step: str) -> bool:
    """Tell whether the schema of a value that any of *nodes* may describe names its member *step*."""
    return any(step in node.members for node in _iter_closures(nodes))


def _iter_closures(nodes: Iterable[SecretNode]) -> Iterator[SecretNode]:
    for node in nodes:
        yield from node.closure


def join_nodes(nodes: Iterable[SecretNode]) -> SecretNode:
    """Return a node of values that any of *nodes* may describe."""
    joined = SecretNode(alternatives=list(nodes))
    joined.closure = tuple(_iter_reachable(joined, lambda reached: reached.alternatives))
    joined.contains_secrets = any(node.contains_secrets for node in joined.alternatives)
    joined.secret_member_names = frozenset().union(*(node.secret_member_names for node in joined.alternatives))
    names = [node.member_names for node in joined.alternatives if node.member_names is not None]
    joined.member_names = frozenset().union(*names) if names else None
    joined.named_items = max((node.named_items for node in joined.alternatives), default=0)
    joined.container_types = next((node.container_types for node in joined.alternatives if node.container_types), None)
    return joined


def build_secret_tree(
    schema: object, is_secret_name: Callable[[str], bool], *, is_validated: bool = True
) -> SecretNode:
    """
    Return the node of the values of a JSON Schema; `writeOnly` and the format `password` mark what is secret.

    In values that may not fit a schema with secrets, by their marks or by their names, what it does not know is secret,
    too, and so is a container in a place where none fits: a model misspells a name, leaves a level out, or adds one.

    Args:
        schema: The schema of the arguments, or of the result; None where anything may come.
        is_secret_name: Tells whether the value of a key is secret by the key's name.
        is_validated: The values fit the schema.
    """
    if not isinstance(schema, Mapping):
        return SecretNode()
    builder = _SecretTreeBuilder(schema, is_secret_name, is_validated=is_validated)
    root = builder.build_node(schema)
    for node in builder.nodes:
        node.closure = tuple(_iter_reachable(node, lambda reached: reached.alternatives))
    for node in builder.nodes:
        node.contains_secrets = any(inner.secret or inner.secret_keys for inner in _iter_reachable(node, _get_parts))
    if not is_validated:
        _mark_unknown_members(builder.nodes, root)
        names = (key for node in builder.nodes for key in node.members if isinstance(key, str))
        root.member_names = frozenset(names) if has_secret_schema(schema) else None
    indexes = (step for node in builder.nodes for step in node.members if isinstance(step, int))
    root.named_items = max(indexes, default=-1) + 1
    root.secret_member_names = frozenset(
        key
        for node in builder.nodes
        for key, member in node.members.items()
        if isinstance(key, str) and is_secret((member,))
    )
    root.textless = not root.contains_secrets and builder.is_textless(schema, ())
    for name, part in (schema.get("properties") or {}).items():
        member = root.members[name]
        member.textless = not member.contains_secrets and builder.is_textless(part, ()) and not is_secret_name(name)
    return root


def _mark_unknown_members(nodes: Iterable[SecretNode], root: SecretNode) -> None:
    """Say of *nodes* whether what they do not know is secret; misspelled parameters, those of *root*, stay readable."""
    for node in nodes:
        if node is not root and node.is_closed:
            node.hides_unknown_keys = any(map(_may_have_secret_keys, _iter_reachable(node, _get_parts)))
    for node in nodes:  # a secret of an object may have been put into the value of one of its other keys
        if node.contains_secrets and node.additional is not None:
            for inner in _iter_reachable(node.additional, _get_parts):
                inner.contains_secrets = True
    for node in nodes:
        _mark_unknown_members_secret(node)


def _may_have_secret_keys(node: SecretNode) -> bool:
    return node.secret_keys or (node.secret and dict in (node.container_types or ()) and not node.is_closed)


def _mark_unknown_members_secret(node: SecretNode) -> None:
    """Make the members that *node* does not know secret, where it has secrets."""
    if node.contains_secrets and not node.secret and _has_known_members(node):
        types = node.container_types or ()
        if list in types and node.items is None:
            node.items = SecretNode(secret=True)
        if dict in types and node.additional is None:
            node.additional = SecretNode(secret=True)


def _has_known_members(node: SecretNode) -> bool:
    return bool(node.members) or node.items is not None or node.additional is not None


class _SecretTreeBuilder:
    """
    Builds the nodes of one schema; a part that several others refer to has one node.

    Args:
        root: The schema.
        is_secret_name: Tells whether the value of a key is secret by the key's name.
        is_validated: The values fit the schema; else the nodes of such keys are secret, and say what does not fit.
    """

    def __init__(self, root: _Schema, is_secret_name: Callable[[str], bool], *, is_validated: bool) -> None:
        self._root, self._is_secret_name, self._is_validated = root, is_secret_name, is_validated
        self._nodes_by_schema: dict[int, SecretNode] = {}
        self.nodes: list[SecretNode] = []
        self._unknown_schema: _Schema = {"writeOnly": has_secret_schema(root)}
        self._anchors = _collect_anchors(root)

    def build_node(self, schema: object) -> SecretNode:
        """Return the node of the values of *schema*."""
        if not isinstance(schema, Mapping):
            return self._add_node()
        node = self._nodes_by_schema.get(id(schema))
        if node is None:
            node = self._nodes_by_schema[id(schema)] = self._add_node()
            self._fill_node(node, schema)
            if not self._is_validated:
                node.container_types = _find_container_types(node, schema)
                node.is_closed = any(schema.get(name) is False for name in (*_ITEM_KEYWORDS, *_MEMBER_KEYWORDS))
        return node

    def _build_member(self, step: str | int, schema: object) -> SecretNode:
        member = self.build_node(schema)
        name = step if isinstance(step, str) else get_item_name(schema)
        is_key_of_value = self._is_validated and name is step  # whoever hides the value sees the key
        if is_key_of_value or not (name and self._is_secret_name(name)):
            return member
        if is_amount(name) and self.is_textless(schema, ()):
            return member
        secret = self._add_node()  # others may share the node of the schema
        secret.secret, secret.alternatives = True, [member]
        return secret

    def _add_node(self) -> SecretNode:
        node = SecretNode()
        self.nodes.append(node)
        return node

    def _fill_node(self, node: SecretNode, schema: _Schema) -> None:
        node.secret = marks_secret(schema)
        parts: list[tuple[str | int, object]] = [*(schema.get("properties") or {}).items()]
        for name in ("prefixItems", "items"):  # a list of `items` is that of JSON Schema before 2020
            parts += enumerate(schema[name]) if isinstance(schema.get(name), list) else ()
        node.members = {step: self._build_member(step, part) for step, part in parts}
        node.items = self._build_any(schema[name] for name in _ITEM_KEYWORDS if isinstance(schema.get(name), Mapping))
        others = [*(schema.get("patternProperties") or {}).values(), *map(schema.get, _MEMBER_KEYWORDS)]
        node.additional = self._build_any(part for part in others if isinstance(part, Mapping))
        names = schema.get("propertyNames")
        if isinstance(names, Mapping):
            names_node = self.build_node(names)
            node.secret_keys = is_secret(_iter_reachable(names_node, lambda reached: reached.alternatives))
        node.alternatives += [self.build_node(part) for part in self._iter_alternatives(schema)]

    def _build_any(self, schemas: Iterable[object]) -> SecretNode | None:
        """Return the node of the values of any of *schemas*; None where there is none."""
        nodes = [self.build_node(schema) for schema in schemas]
        if len(nodes) < 2:
            return nodes[0] if nodes else None
        node = self._add_node()
        node.alternatives = nodes
        return node

    def _iter_alternatives(self, schema: _Schema) -> Iterator[object]:
        for name in _BRANCH_KEYWORDS:
            yield from schema.get(name) or ()
        for name in _DEPENDENT_KEYWORDS:
            yield from (schema.get(name) or {}).values()
        yield from (schema[name] for name in _CONDITION_KEYWORDS if name in schema)
        for name in _REFERENCE_KEYWORDS:
            if name in schema:
                yield from self._follow(schema[name])

    def _follow(self, reference: object) -> Sequence[object]:
        """Return the schemas that *reference* may lead to; where none is known, one that is secret if any is."""
        target = resolve_pointer(self._root, reference)
        if target is None and isinstance(reference, str):
            return self._anchors.get(reference.removeprefix("#")) or (self._unknown_schema,)
        return (target,)

    def is_textless(self, schema: object, outer: tuple[int, ...]) -> bool:
        """Tell whether the values of *schema* hold no free text; what contains itself may."""
        if schema is False:
            return True
        if not isinstance(schema, Mapping) or id(schema) in outer or len(outer) > _MAX_NESTING:
            return False
        if "enum" in schema or "const" in schema:
            return True
        outer = (*outer, id(schema))
        if "$ref" in schema:
            return all(self.is_textless(part, outer) for part in self._follow(schema["$ref"]))
        for name in ("anyOf", "oneOf"):
            if name in schema:
                return all(self.is_textless(part, outer) for part in schema[name])
        return self._is_textless_type(schema, outer)

    def _is_textless_type(self, schema: _Schema, outer: tuple[int, ...]) -> bool:
        kind = schema.get("type")
        kinds = {kind} if isinstance(kind, str) else set(kind or ())
        if kinds and kinds <= _TEXTLESS_TYPES:
            return True
        if kinds == {"string"}:
            return schema.get("format") in _FIXED_FORMATS
        if kinds == {"array"}:
            parts = [*(schema.get("prefixItems") or ()), schema.get("items")]
            return all(self.is_textless(part, outer) for part in parts)
        if kinds == {"object"} and schema.get("additionalProperties") is False and "patternProperties" not in schema:
            members = (schema.get("properties") or {}).items()
            return all(self.is_textless(part, outer) and not self._is_secret_name(name) for name, part in members)
        return False


def _find_container_types(node: SecretNode, schema: _Schema) -> frozenset[type] | None:
    """Return the containers that *schema*, the one of *node*, lets in; None where it says nothing of them."""
    if kinds := schema.get("type"):
        names = (kinds,) if isinstance(kinds, str) else kinds
        return frozenset(_CONTAINER_TYPES[name] for name in names if name in _CONTAINER_TYPES)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum") or (schema.get("const"),)
        return frozenset(type(value) for value in values) & {dict, list}
    if any(part in ({}, True) for name in ("anyOf", "oneOf") for part in schema.get(name) or ()):
        return frozenset({dict, list})  # anything fits
    if _has_known_members(node):
        return frozenset({list if node.items is not None or 0 in node.members else dict})
    return None


def _collect_anchors(root: _Schema) -> dict[str, list[object]]:
    """Return the schemas that have names, by these."""
    anchors: dict[str, list[object]] = {}
    for schema in iter_schemas(root):
        for name in _ANCHOR_KEYWORDS:
            if isinstance(anchor := schema.get(name), str):
                anchors.setdefault(anchor.removeprefix("#"), []).append(schema)
    return anchors


def _get_parts(node: SecretNode) -> Iterable[SecretNode | None]:
    return (*node.alternatives, *node.members.values(), node.items, node.additional)


def _iter_reachable(
    node: SecretNode, get_next: Callable[[SecretNode], Iterable[SecretNode | None]]
) -> Iterator[SecretNode]:
    """Yield *node* and the nodes that are reached from it by *get_next*, each once."""
    seen, stack = {id(node)}, [node]
    while stack:
        reached = stack.pop()
        yield reached
        for other in get_next(reached):
            if other is not None and id(other) not in seen:
                seen.add(id(other))
                stack.append(other)
