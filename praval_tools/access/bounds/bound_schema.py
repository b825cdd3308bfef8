"""
A bound as it was written → the strict JSON Schema that is enforced, or every reason why it cannot be.

JSON Schema passes what a keyword does not speak of: `maximum` says nothing of text, `properties` nothing of what is
absent. A bound that a caller can walk around in this way is worthless, so here a keyword implies its type, and naming a
property or a position makes it required. Inside of `not` the keywords mean what the standard says; where to fit may
count for a value or against it (`if`, `oneOf`, `maxContains`), it must be inside by both readings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from praval_tools.names import find_similar_names, shorten_repr
from praval_tools.schema.json_pointer import resolve_pointer
from praval_tools.schema.text_formats import DECIMAL_PATTERN
from praval_tools.schema.validator import compile_schema, refuse_retrieval

NUMBER_KEYWORDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
STRING_KEYWORDS: Final = ("minLength", "maxLength", "pattern", "format")
ARRAY_KEYWORDS: Final = (
    "items",
    "prefixItems",
    "contains",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minContains",
    "maxContains",
)
OBJECT_KEYWORDS: Final = (
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "maxProperties", "dependentRequired", "dependentSchemas",
)  # fmt: skip
TYPES_BY_KEYWORD: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(NUMBER_KEYWORDS, frozenset({"number"})),
    **dict.fromkeys(STRING_KEYWORDS, frozenset({"string"})),
    **dict.fromkeys(ARRAY_KEYWORDS, frozenset({"array"})),
    **dict.fromkeys(OBJECT_KEYWORDS, frozenset({"object"})),
}
"""Keyword → the JSON types of which it speaks."""

ALL_TYPES: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
BRANCH_KEYWORDS: Final = ("allOf", "anyOf", "oneOf")
CONDITION_KEYWORDS: Final = ("if", "then", "else")
_ANNOTATION_KEYWORDS: Final = frozenset(
    {"title", "description", "default", "examples", "deprecated", "$comment", "$schema"}
)
_TYPE_INDEPENDENT_KEYWORDS: Final = frozenset({"type", "enum", "const", "not", *BRANCH_KEYWORDS, *CONDITION_KEYWORDS})
_REFERENCE_KEYWORDS: Final = frozenset({"$ref", "$defs", "definitions"})
_NAMED_SCHEMA_KEYWORDS: Final = ("properties", "patternProperties", "dependentSchemas")
"""What is under these are names and their schemas: a property may itself be called `$ref` or `definitions`."""

_VALUE_KEYWORDS: Final = ("enum", "const", "default", "examples", "required", "dependentRequired")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_REQUIRED_COMPANIONS: Final = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_KNOWN_KEYWORDS: Final = (
    _TYPE_INDEPENDENT_KEYWORDS | _ANNOTATION_KEYWORDS | _REFERENCE_KEYWORDS | TYPES_BY_KEYWORD.keys()
)
_KNOWN_FORMATS: Final = (
    "date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
)  # fmt: skip
_AMBIVALENT_KEYWORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "oneOf": ("oneOf",),
    "if": ("if", "then", "else"),
    "maxContains": ("contains", "minContains", "maxContains"),
}
_UNRESOLVED: Final = object()
_MAX_NODES: Final = 10_000
_MAX_DEPTH: Final = 128


class InvalidBoundError(Exception):
    """A bound that cannot be enforced; the text says where and why."""


def inline_references(schema: Any, root: Mapping[str, Any]) -> Any:
    """
    Return *schema* with what its references lead to in their place.

    Raises:
        BadBound: A reference leads outside, nowhere, or into itself.
    """
    left = [_MAX_NODES]

    def copy_node(here: Any, within: tuple[str, ...], level: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or level > _MAX_DEPTH:
            raise InvalidBoundError("it is too large once its references are followed")
        if isinstance(here, list):
            return [copy_node(one, within, level + 1) for one in here]
        if not isinstance(here, dict):
            return here
        made: dict[str, Any] = {}
        for key, one in here.items():
            if key in _NAMED_SCHEMA_KEYWORDS and isinstance(one, dict):
                made[key] = {name: copy_node(below, within, level + 1) for name, below in one.items()}
            elif key not in _REFERENCE_KEYWORDS:
                made[key] = one if key in _VALUE_KEYWORDS else copy_node(one, within, level + 1)
        if "$ref" not in here:
            return made
        reference = here["$ref"]
        if reference in within:
            raise InvalidBoundError(
                f"the reference {shorten_repr(reference)} leads into itself; write out the levels you need"
            )
        aim = copy_node(_resolve_reference(reference, root), (*within, reference), level + 1)
        return {**made, "allOf": [*made.get("allOf", ()), aim]} if made else aim

    return copy_node(schema, (), 0)


def _resolve_reference(reference: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise InvalidBoundError(
            f"the reference {shorten_repr(reference)} leads outside of the bound; it is never fetched"
        )
    target = resolve_pointer(root, reference, _UNRESOLVED)
    if target is _UNRESOLVED:
        raise InvalidBoundError(f"the reference {shorten_repr(reference)} leads nowhere")
    return target


# ── what is wrong with it ────────────────────────────────────────────────────────────────────────


def iter_bound_problems(bound: Any, spoken_of: Any, place: str) -> Iterator[str]:
    """
    Yield every reason why *bound*, references inlined, cannot be enforced on values of the schema *spoken_of*.

    Args:
        bound: The bound.
        spoken_of: The schema of the value, with references inlined; True where nothing is known.
        place: What the value is called.
    """
    if bound is True or bound is False:
        return
    if not isinstance(bound, dict):
        said = "one allowed value" if not isinstance(bound, list) else "several allowed values"
        meant = {"enum": bound} if isinstance(bound, list) else {"const": bound}
        yield f"{place}: {shorten_repr(bound)} is no JSON Schema; for {said} write {shorten_repr(meant)}"
        return
    kinds = get_possible_types(spoken_of)
    if spoken_of == _DECIMAL_SCHEMA and (text := _describe_text_keywords(bound)):
        yield f"{place}: {text}; a Decimal is compared as a number: write 5000, not '5000'"
    for keyword, value in bound.items():
        if said := _check_keyword(keyword, value, bound, kinds):
            yield f"{place}: {said}"
    yield from _iter_nested_problems(bound, spoken_of, place)


_DECIMAL_SCHEMA: Final = {"anyOf": [{"type": "string", "pattern": DECIMAL_PATTERN}, {"type": "number"}]}


def _describe_text_keywords(bound: Mapping[str, Any]) -> str:
    """Return what in a bound speaks of text; empty where nothing does."""
    found = [repr(key) for key in ("pattern", "minLength", "maxLength", "format") if key in bound]
    values = [*bound.get("enum", ()), *([bound["const"]] if "const" in bound else [])]
    found += [shorten_repr(one) for one in values if isinstance(one, str)]
    kinds = bound.get("type", ())
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        found.append("the type 'string'")
    return f"{', '.join(found)} speaks of text" if found else ""


def _check_keyword(keyword: str, value: Any, beside: Mapping[str, Any], kinds: frozenset[str]) -> str:
    if keyword not in _KNOWN_KEYWORDS:
        return f"{shorten_repr(keyword)} is no keyword that bounds anything{_suggest_name(keyword, _KNOWN_KEYWORDS)}"
    if keyword in TYPES_BY_KEYWORD and not TYPES_BY_KEYWORD[keyword] & kinds:
        return f"{keyword!r} speaks of {_join_types(TYPES_BY_KEYWORD[keyword])}, and this is {_join_types(kinds)}"
    if keyword == "format" and value not in _KNOWN_FORMATS:
        return f"the format {shorten_repr(value)} is unknown{_suggest_name(str(value), _KNOWN_FORMATS)}"
    if keyword == "$schema" and str(value).rstrip("#") != _DIALECT:
        return f"'$schema' is {shorten_repr(value)}, and bounds are read as {_DIALECT!r}; leave it out"
    if keyword in _REQUIRED_COMPANIONS and _REQUIRED_COMPANIONS[keyword] not in beside:
        return f"{keyword!r} says nothing without {_REQUIRED_COMPANIONS[keyword]!r}"
    if keyword == "if" and not beside.keys() & {"then", "else"}:
        return "'if' says nothing without 'then' or 'else'"
    return ""


def _suggest_name(name: str, candidates: Iterable[str]) -> str:
    match = find_similar_names(name, candidates)
    return f"; did you mean {match[0]!r}?" if match else ""


def _iter_nested_problems(bound: dict[str, Any], spoken_of: Any, place: str) -> Iterator[str]:
    for keyword in BRANCH_KEYWORDS:
        for one in _list_or_empty(bound.get(keyword)):
            yield from iter_bound_problems(one, spoken_of, place)
    for keyword in ("not", *CONDITION_KEYWORDS):
        if keyword in bound:
            yield from iter_bound_problems(bound[keyword], spoken_of, place)
    properties = bound.get("properties")
    if isinstance(properties, dict):
        for name, one in properties.items():
            known = find_property_schema(spoken_of, name)
            if known is not None:
                yield from iter_bound_problems(one, known, f"{place}.{name}")
            elif name not in _list_or_empty(bound.get("required")):
                yield _describe_unknown_property(spoken_of, name, place)
    for name in _list_or_empty(bound.get("required")):
        if find_property_schema(spoken_of, str(name)) is None:
            yield _describe_unknown_property(spoken_of, str(name), place)
    items = spoken_of.get("items", True) if isinstance(spoken_of, dict) else True
    for keyword in ("items", "contains"):
        if keyword in bound:
            yield from iter_bound_problems(bound[keyword], items, f"{place}[]")
    for one in _list_or_empty(bound.get("prefixItems")):
        yield from iter_bound_problems(one, True, f"{place}[]")
    for keyword, known in (("additionalProperties", True), ("propertyNames", {"type": "string"})):
        if keyword in bound:
            yield from iter_bound_problems(bound[keyword], known, f"{place}.*")
    for keyword in ("patternProperties", "dependentSchemas"):
        for one in bound[keyword].values() if isinstance(bound.get(keyword), dict) else ():
            yield from iter_bound_problems(one, True, f"{place}.*")


def _describe_unknown_property(spoken_of: Any, name: str, place: str) -> str:
    return f"{place}.{name}: there is no such property{_suggest_name(name, list_property_names(spoken_of))}"


def _list_or_empty(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _join_types(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds)) or "nothing"


def _list_branches(schema: Any) -> list[Any]:
    """Return the schemas of which a value may follow one; the schema itself where it has no branches."""
    found = [one for keyword in ("anyOf", "oneOf") for one in _list_or_empty(schema.get(keyword))]
    return [inner for one in found for inner in (_list_branches(one) if isinstance(one, dict) else [one])] or [schema]


def get_possible_types(schema: Any) -> frozenset[str]:
    """Return the JSON types that values of *schema* may have, `integer` as `number`; all where it does not say."""
    if not isinstance(schema, dict):
        return ALL_TYPES if schema is not False else frozenset()
    branches = _list_branches(schema)
    if branches != [schema]:
        found = frozenset[str]().union(*map(get_possible_types, branches))
    else:
        found = ALL_TYPES
    for one in _list_or_empty(schema.get("allOf")):
        found &= get_possible_types(one)
    named = schema.get("type")
    if named is not None:
        several = named if isinstance(named, list) else [named]
        found &= frozenset("number" if one == "integer" else one for one in several)
    if "const" in schema:
        found &= {get_json_type(schema["const"])}
    if isinstance(schema.get("enum"), list):
        found &= frozenset(map(get_json_type, schema["enum"]))
    return found


def get_json_type(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "string", list: "array", dict: "object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "number")


def find_property_schema(schema: Any, name: str) -> Any:
    """Return what is known of a property: its schema, True for anything, None where there can be none."""
    if not isinstance(schema, dict):
        return True
    found = []
    for one in [*_list_branches(schema), *_list_or_empty(schema.get("allOf"))]:
        if not isinstance(one, dict) or "object" not in get_possible_types(one):
            continue
        properties = one.get("properties")
        if isinstance(properties, dict) and name in properties:
            return properties[name]
        found.append(one.get("additionalProperties", True) is not False or "patternProperties" in one)
    return True if any(found) or not found else None


def list_property_names(schema: Any) -> list[str]:
    """Return the properties that a schema names."""
    if not isinstance(schema, dict):
        return []
    parts = [schema, *_list_branches(schema), *_list_or_empty(schema.get("allOf"))]
    return list(dict.fromkeys(name for one in parts if isinstance(one, dict) for name in one.get("properties") or ()))


def is_restrictive(bound: Any) -> bool:
    """Tell whether a bound, references inlined, says anything at all."""
    if not isinstance(bound, dict):
        return bound is False
    return any(
        _is_restrictive_keyword(keyword, value, bound)
        for keyword, value in bound.items()
        if keyword not in _ANNOTATION_KEYWORDS
    )


def _is_restrictive_keyword(keyword: str, value: Any, beside: Mapping[str, Any]) -> bool:
    if keyword == "allOf":
        return any(map(is_restrictive, value))
    if keyword == "anyOf":
        return all(map(is_restrictive, value))
    if keyword == "not":
        return value is not False and (
            not isinstance(value, dict) or "not" not in value or is_restrictive(value["not"])
        )
    if keyword in CONDITION_KEYWORDS:
        return any(is_restrictive(beside.get(branch, True)) for branch in ("then", "else"))
    return keyword not in _REFERENCE_KEYWORDS


def describe_schema_errors(schema: Mapping[str, Any]) -> str:
    """Return every reason why *schema* is no valid JSON Schema; empty where it is one."""
    import jsonschema_rs

    plain = {key: value for key, value in schema.items() if key != "$schema"}  # or it would be fetched
    rules = jsonschema_rs.Draft202012Validator({"$ref": _DIALECT}, retriever=refuse_retrieval)
    found = [(".".join(map(str, error.instance_path)), str(error.message)) for error in rules.iter_errors(plain)]
    if not found:
        try:
            compile_schema(plain)
        except jsonschema_rs.ValidationError as error:
            found = [(".".join(map(str, error.instance_path)), str(error.message))]
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            found = [("", str(error))]
    said = (f"{path or 'it'} is no valid JSON Schema: {shorten_repr(message, 160)}" for path, message in found)
    return "; ".join(dict.fromkeys(said))


# ── what is enforced ─────────────────────────────────────────────────────────────────────────────


def make_strict(schema: Any) -> Any:
    """Return *schema* with the types and the presence that its keywords imply."""
    if not isinstance(schema, dict):
        return schema
    made = _transform_subschemas(schema, make_strict)
    if pairs := _read_ambivalent_both_ways(schema, make_strict):
        made["allOf"] = [*made.get("allOf", ()), *(one for pair in pairs for one in pair)]
    implied = frozenset[str]().union(*(TYPES_BY_KEYWORD[keyword] for keyword in schema if keyword in TYPES_BY_KEYWORD))
    if implied and "type" not in made:
        made["type"] = sorted(implied)
    if "properties" in made and "required" not in made:
        made["required"] = list(made["properties"])
    if "prefixItems" in made and "minItems" not in made:
        made["minItems"] = len(made["prefixItems"])
    return made


def _make_strict_under_not(schema: Any) -> Any:
    """Return what stands inside of a `not`: as written, but strict again inside of a second `not`."""
    if not isinstance(schema, dict):
        return schema
    made = _transform_subschemas(schema, _make_strict_under_not)
    if pairs := _read_ambivalent_both_ways(schema, _make_strict_under_not):
        made["allOf"] = [*made.get("allOf", ()), *({"anyOf": list(pair)} for pair in pairs)]
    return made


def _transform_subschemas(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return *schema* with what is below changed, and without what counts two ways."""
    left_out = {keyword for key, group in _AMBIVALENT_KEYWORDS.items() if key in schema for keyword in group}
    made = {key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS and key not in left_out}
    for keyword in ("items", "contains", "additionalProperties", "propertyNames"):
        if keyword in made:
            made[keyword] = change(made[keyword])
    for keyword in _NAMED_SCHEMA_KEYWORDS:
        if keyword in made:
            made[keyword] = {name: change(one) for name, one in made[keyword].items()}
    for keyword in ("allOf", "anyOf", "prefixItems"):
        if keyword in made:
            made[keyword] = [change(one) for one in made[keyword]]
    if "not" in made:
        made["not"] = _make_strict_under_not(made["not"]) if change is make_strict else make_strict(made["not"])
    return made


def _read_ambivalent_both_ways(
    schema: Mapping[str, Any], change: Callable[[Any], Any]
) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """
    Return the parts in which to fit may count for a value or against it, each as written and read strictly.

    A value must be inside by both readings: stricter branches of a `oneOf` alone would admit more than is written.
    """
    found = []
    for keyword, group in _AMBIVALENT_KEYWORDS.items():
        if keyword in schema:
            part = {key: schema[key] for key in group if key in schema}
            written = {key: change(one) if key in ("then", "else") else one for key, one in part.items()}
            read = {key: [make_strict(each) for each in one] if key == "oneOf" else make_strict(one)
                    for key, one in part.items() if key in ("oneOf", "if", "contains")}  # fmt: skip
            found.append((written, {**written, **read}))
    return found


def lift_to_given_and_filled(schema: Any) -> Any:
    """
    Return a strict schema of whole arguments as one of `{"given": …, "filled": …}`.

    `enum` and `const` of the whole compare what was given; everything else sees the defaults too.
    """
    if not isinstance(schema, dict):
        return schema
    aside = {"enum", "const", "not", *BRANCH_KEYWORDS, *CONDITION_KEYWORDS}
    plain = {key: value for key, value in schema.items() if key not in aside}
    values = {key: schema[key] for key in ("enum", "const") if key in schema}
    made: dict[str, Any] = {"properties": {"filled": plain, "given": values}}
    for keyword in BRANCH_KEYWORDS:
        if keyword in schema:
            made[keyword] = [lift_to_given_and_filled(one) for one in schema[keyword]]
    for keyword in ("not", *CONDITION_KEYWORDS):
        if keyword in schema:
            made[keyword] = lift_to_given_and_filled(schema[keyword])
    return made
