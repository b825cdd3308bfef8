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

from praval_tools.names import near, shorten
from praval_tools.schema.text_formats import DECIMAL
from praval_tools.schema.validator import compiled, refuse

NUMBERS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
TEXTS: Final = ("minLength", "maxLength", "pattern", "format")
LISTS: Final = ("items", "prefixItems", "contains", "minItems", "maxItems", "uniqueItems", "minContains", "maxContains")
OBJECTS: Final = (
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "maxProperties", "dependentRequired", "dependentSchemas",
)  # fmt: skip
KINDS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(NUMBERS, frozenset({"number"})),
    **dict.fromkeys(TEXTS, frozenset({"string"})),
    **dict.fromkeys(LISTS, frozenset({"array"})),
    **dict.fromkeys(OBJECTS, frozenset({"object"})),
}
"""Keyword → the JSON types of which it speaks."""

ALL: Final = frozenset({"null", "boolean", "number", "string", "array", "object"})
BRANCHES: Final = ("allOf", "anyOf", "oneOf")
CONDITIONS: Final = ("if", "then", "else")
_SAYINGS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "$comment", "$schema"})
_ANYWHERE: Final = frozenset({"type", "enum", "const", "not", *BRANCHES, *CONDITIONS})
_REFERENCES: Final = frozenset({"$ref", "$defs", "definitions"})
_NAMED: Final = ("properties", "patternProperties", "dependentSchemas")
"""What is under these are names and their schemas: a property may itself be called `$ref` or `definitions`."""

_VALUES: Final = ("enum", "const", "default", "examples", "required", "dependentRequired")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_NEEDS: Final = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}
_KNOWN: Final = _ANYWHERE | _SAYINGS | _REFERENCES | KINDS.keys()
_FORMATS: Final = (
    "date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
)  # fmt: skip
_TWO_WAYS: Final[Mapping[str, tuple[str, ...]]] = {
    "oneOf": ("oneOf",),
    "if": ("if", "then", "else"),
    "maxContains": ("contains", "minContains", "maxContains"),
}
_MOST_NODES: Final = 10_000
_MOST_LEVELS: Final = 128


class BadBound(Exception):
    """A bound that cannot be enforced; the text says where and why."""


def inlined(schema: Any, root: Mapping[str, Any]) -> Any:
    """
    Return *schema* with what its references lead to in their place.

    Raises:
        BadBound: A reference leads outside, nowhere, or into itself.
    """
    left = [_MOST_NODES]

    def copy(here: Any, within: tuple[str, ...], level: int) -> Any:
        left[0] -= 1
        if left[0] < 0 or level > _MOST_LEVELS:
            raise BadBound("it is too large once its references are followed")
        if isinstance(here, list):
            return [copy(one, within, level + 1) for one in here]
        if not isinstance(here, dict):
            return here
        made: dict[str, Any] = {}
        for key, one in here.items():
            if key in _NAMED and isinstance(one, dict):
                made[key] = {name: copy(below, within, level + 1) for name, below in one.items()}
            elif key not in _REFERENCES:
                made[key] = one if key in _VALUES else copy(one, within, level + 1)
        if "$ref" not in here:
            return made
        reference = here["$ref"]
        if reference in within:
            raise BadBound(f"the reference {shorten(reference)} leads into itself; write out the levels you need")
        aim = copy(_aim(reference, root), (*within, reference), level + 1)
        return {**made, "allOf": [*made.get("allOf", ()), aim]} if made else aim

    return copy(schema, (), 0)


def _aim(reference: Any, root: Mapping[str, Any]) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#/"):
        raise BadBound(f"the reference {shorten(reference)} leads outside of the bound; it is never fetched")
    here: Any = root
    for step in reference[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if not isinstance(here, Mapping) or name not in here:
            raise BadBound(f"the reference {shorten(reference)} leads nowhere")
        here = here[name]
    return here


# ── what is wrong with it ────────────────────────────────────────────────────────────────────────


def problems(bound: Any, spoken_of: Any, place: str) -> Iterator[str]:
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
        yield f"{place}: {shorten(bound)} is no JSON Schema; for {said} write {shorten(meant)}"
        return
    kinds = types(spoken_of)
    if spoken_of == _DECIMAL_FORM and (text := _textual(bound)):
        yield f"{place}: {text}; a Decimal is compared as a number: write 5000, not '5000'"
    for keyword, value in bound.items():
        if said := _keyword_problem(keyword, value, bound, kinds):
            yield f"{place}: {said}"
    yield from _inner_problems(bound, spoken_of, place)


_DECIMAL_FORM: Final = {"anyOf": [{"type": "string", "pattern": DECIMAL}, {"type": "number"}]}


def _textual(bound: Mapping[str, Any]) -> str:
    """Return what in a bound speaks of text; empty where nothing does."""
    found = [repr(key) for key in ("pattern", "minLength", "maxLength", "format") if key in bound]
    values = [*bound.get("enum", ()), *([bound["const"]] if "const" in bound else [])]
    found += [shorten(one) for one in values if isinstance(one, str)]
    kinds = bound.get("type", ())
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        found.append("the type 'string'")
    return f"{', '.join(found)} speaks of text" if found else ""


def _keyword_problem(keyword: str, value: Any, beside: Mapping[str, Any], kinds: frozenset[str]) -> str:
    if keyword not in _KNOWN:
        return f"{shorten(keyword)} is no keyword that bounds anything{_hint(keyword, _KNOWN)}"
    if keyword in KINDS and not KINDS[keyword] & kinds:
        return f"{keyword!r} speaks of {_list(KINDS[keyword])}, and this is {_list(kinds)}"
    if keyword == "format" and value not in _FORMATS:
        return f"the format {shorten(value)} is unknown{_hint(str(value), _FORMATS)}"
    if keyword == "$schema" and str(value).rstrip("#") != _DIALECT:
        return f"'$schema' is {shorten(value)}, and bounds are read as {_DIALECT!r}; leave it out"
    if keyword in _NEEDS and _NEEDS[keyword] not in beside:
        return f"{keyword!r} says nothing without {_NEEDS[keyword]!r}"
    if keyword == "if" and not beside.keys() & {"then", "else"}:
        return "'if' says nothing without 'then' or 'else'"
    return ""


def _hint(name: str, candidates: Iterable[str]) -> str:
    match = near(name, candidates)
    return f"; did you mean {match[0]!r}?" if match else ""


def _inner_problems(bound: dict[str, Any], spoken_of: Any, place: str) -> Iterator[str]:
    for keyword in BRANCHES:
        for one in _sequence(bound.get(keyword)):
            yield from problems(one, spoken_of, place)
    for keyword in ("not", *CONDITIONS):
        if keyword in bound:
            yield from problems(bound[keyword], spoken_of, place)
    properties = bound.get("properties")
    if isinstance(properties, dict):
        for name, one in properties.items():
            known = property_of(spoken_of, name)
            if known is not None:
                yield from problems(one, known, f"{place}.{name}")
            elif name not in _sequence(bound.get("required")):
                yield _unknown(spoken_of, name, place)
    for name in _sequence(bound.get("required")):
        if property_of(spoken_of, str(name)) is None:
            yield _unknown(spoken_of, str(name), place)
    items = spoken_of.get("items", True) if isinstance(spoken_of, dict) else True
    for keyword in ("items", "contains"):
        if keyword in bound:
            yield from problems(bound[keyword], items, f"{place}[]")
    for one in _sequence(bound.get("prefixItems")):
        yield from problems(one, True, f"{place}[]")
    for keyword, known in (("additionalProperties", True), ("propertyNames", {"type": "string"})):
        if keyword in bound:
            yield from problems(bound[keyword], known, f"{place}.*")
    for keyword in ("patternProperties", "dependentSchemas"):
        for one in bound[keyword].values() if isinstance(bound.get(keyword), dict) else ():
            yield from problems(one, True, f"{place}.*")


def _unknown(spoken_of: Any, name: str, place: str) -> str:
    return f"{place}.{name}: there is no such property{_hint(name, names(spoken_of))}"


def _sequence(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _list(kinds: frozenset[str]) -> str:
    return " or ".join(sorted(kinds)) or "nothing"


def _branches(schema: Any) -> list[Any]:
    """Return the schemas of which a value may follow one; the schema itself where it has no branches."""
    found = [one for keyword in ("anyOf", "oneOf") for one in _sequence(schema.get(keyword))]
    return [inner for one in found for inner in (_branches(one) if isinstance(one, dict) else [one])] or [schema]


def types(schema: Any) -> frozenset[str]:
    """Return the JSON types that values of *schema* may have, `integer` as `number`; all where it does not say."""
    if not isinstance(schema, dict):
        return ALL if schema is not False else frozenset()
    branches = _branches(schema)
    if branches != [schema]:
        found = frozenset[str]().union(*map(types, branches))
    else:
        found = ALL
    for one in _sequence(schema.get("allOf")):
        found &= types(one)
    named = schema.get("type")
    if named is not None:
        several = named if isinstance(named, list) else [named]
        found &= frozenset("number" if one == "integer" else one for one in several)
    if "const" in schema:
        found &= {type_of(schema["const"])}
    if isinstance(schema.get("enum"), list):
        found &= frozenset(map(type_of, schema["enum"]))
    return found


def type_of(value: Any) -> str:
    """Return the JSON type of a value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    kinds = {str: "string", list: "array", dict: "object"}
    return next((name for kind, name in kinds.items() if isinstance(value, kind)), "number")


def property_of(schema: Any, name: str) -> Any:
    """Return what is known of a property: its schema, True for anything, None where there can be none."""
    if not isinstance(schema, dict):
        return True
    found = []
    for one in [*_branches(schema), *_sequence(schema.get("allOf"))]:
        if not isinstance(one, dict) or "object" not in types(one):
            continue
        properties = one.get("properties")
        if isinstance(properties, dict) and name in properties:
            return properties[name]
        found.append(one.get("additionalProperties", True) is not False or "patternProperties" in one)
    return True if any(found) or not found else None


def names(schema: Any) -> list[str]:
    """Return the properties that a schema names."""
    if not isinstance(schema, dict):
        return []
    parts = [schema, *_branches(schema), *_sequence(schema.get("allOf"))]
    return list(dict.fromkeys(name for one in parts if isinstance(one, dict) for name in one.get("properties") or ()))


def narrows(bound: Any) -> bool:
    """Tell whether a bound, references inlined, says anything at all."""
    if not isinstance(bound, dict):
        return bound is False
    return any(_says(keyword, value, bound) for keyword, value in bound.items() if keyword not in _SAYINGS)


def _says(keyword: str, value: Any, beside: Mapping[str, Any]) -> bool:
    if keyword == "allOf":
        return any(map(narrows, value))
    if keyword == "anyOf":
        return all(map(narrows, value))
    if keyword == "not":
        return value is not False and (not isinstance(value, dict) or "not" not in value or narrows(value["not"]))
    if keyword in CONDITIONS:
        return any(narrows(beside.get(branch, True)) for branch in ("then", "else"))
    return keyword not in _REFERENCES


def invalid(schema: Mapping[str, Any]) -> str:
    """Return every reason why *schema* is no valid JSON Schema; empty where it is one."""
    import jsonschema_rs

    plain = {key: value for key, value in schema.items() if key != "$schema"}  # or it would be fetched
    rules = jsonschema_rs.Draft202012Validator({"$ref": _DIALECT}, retriever=refuse)
    found = [(".".join(map(str, error.instance_path)), str(error.message)) for error in rules.iter_errors(plain)]
    if not found:
        try:
            compiled(plain)
        except jsonschema_rs.ValidationError as error:
            found = [(".".join(map(str, error.instance_path)), str(error.message))]
        except (ValueError, RecursionError, jsonschema_rs.ReferencingError) as error:
            found = [("", str(error))]
    said = (f"{path or 'it'} is no valid JSON Schema: {shorten(message, 160)}" for path, message in found)
    return "; ".join(dict.fromkeys(said))


# ── what is enforced ─────────────────────────────────────────────────────────────────────────────


def strict(schema: Any) -> Any:
    """Return *schema* with the types and the presence that its keywords imply."""
    if not isinstance(schema, dict):
        return schema
    made = _below(schema, strict)
    if pairs := _two_ways(schema, strict):
        made["allOf"] = [*made.get("allOf", ()), *(one for pair in pairs for one in pair)]
    implied = frozenset[str]().union(*(KINDS[keyword] for keyword in schema if keyword in KINDS))
    if implied and "type" not in made:
        made["type"] = sorted(implied)
    if "properties" in made and "required" not in made:
        made["required"] = list(made["properties"])
    if "prefixItems" in made and "minItems" not in made:
        made["minItems"] = len(made["prefixItems"])
    return made


def _negated(schema: Any) -> Any:
    """Return what stands inside of a `not`: as written, but strict again inside of a second `not`."""
    if not isinstance(schema, dict):
        return schema
    made = _below(schema, _negated)
    if pairs := _two_ways(schema, _negated):
        made["allOf"] = [*made.get("allOf", ()), *({"anyOf": list(pair)} for pair in pairs)]
    return made


def _below(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """Return *schema* with what is below changed, and without what counts two ways."""
    left_out = {keyword for key, group in _TWO_WAYS.items() if key in schema for keyword in group}
    made = {key: value for key, value in schema.items() if key not in _SAYINGS and key not in left_out}
    for keyword in ("items", "contains", "additionalProperties", "propertyNames"):
        if keyword in made:
            made[keyword] = change(made[keyword])
    for keyword in _NAMED:
        if keyword in made:
            made[keyword] = {name: change(one) for name, one in made[keyword].items()}
    for keyword in ("allOf", "anyOf", "prefixItems"):
        if keyword in made:
            made[keyword] = [change(one) for one in made[keyword]]
    if "not" in made:
        made["not"] = _negated(made["not"]) if change is strict else strict(made["not"])
    return made


def _two_ways(schema: Mapping[str, Any], change: Callable[[Any], Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """
    Return the parts in which to fit may count for a value or against it, each as written and read strictly.

    A value must be inside by both readings: stricter branches of a `oneOf` alone would admit more than is written.
    """
    found = []
    for keyword, group in _TWO_WAYS.items():
        if keyword in schema:
            part = {key: schema[key] for key in group if key in schema}
            written = {key: change(one) if key in ("then", "else") else one for key, one in part.items()}
            read = {key: [strict(each) for each in one] if key == "oneOf" else strict(one)
                    for key, one in part.items() if key in ("oneOf", "if", "contains")}  # fmt: skip
            found.append((written, {**written, **read}))
    return found


def lifted(schema: Any) -> Any:
    """
    Return a strict schema of whole arguments as one of `{"given": …, "filled": …}`.

    `enum` and `const` of the whole compare what was given; everything else sees the defaults too.
    """
    if not isinstance(schema, dict):
        return schema
    aside = {"enum", "const", "not", *BRANCHES, *CONDITIONS}
    plain = {key: value for key, value in schema.items() if key not in aside}
    values = {key: schema[key] for key in ("enum", "const") if key in schema}
    made: dict[str, Any] = {"properties": {"filled": plain, "given": values}}
    for keyword in BRANCHES:
        if keyword in schema:
            made[keyword] = [lifted(one) for one in schema[keyword]]
    for keyword in ("not", *CONDITIONS):
        if keyword in schema:
            made[keyword] = lifted(schema[keyword])
    return made
