"""
Checks the JSON Schema that limits the arguments of a grant, and rewrites it so that it is enforced strictly.

JSON Schema passes what a keyword does not apply to: `maximum` says nothing about text, `properties` nothing about an
absent property. A caller could get around such a bound, so here a keyword implies its type, and naming a property makes
it required; inside `not`, keywords mean what the standard says. Only keywords for which this is certain are allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from praval_tools.access.bounds.known_schema import KnownSchema
from praval_tools.access.bounds.satisfiability import list_or_empty
from praval_tools.names import shorten_repr, suggest_names
from praval_tools.schema.schema_tree import JsonSchema, iter_schemas, map_subschemas
from praval_tools.schema.validator import compile_schema, refuse_retrieval

_TYPES_BY_KEYWORD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"), "number"),
    **dict.fromkeys(("minLength", "maxLength", "pattern", "format"), "string"),
    **dict.fromkeys(("items", "minItems", "maxItems", "uniqueItems"), "array"),
    **dict.fromkeys(
        ("properties", "required", "additionalProperties", "minProperties", "maxProperties"), "object"
    ),
}  # fmt: skip
"""Keyword → the one JSON type that it applies to, and that it implies in a bound."""

BRANCH_KEYWORDS: Final = ("allOf", "anyOf")
_ALLOWED_KEYWORDS: Final = ("type", "enum", "const", *_TYPES_BY_KEYWORD, *BRANCH_KEYWORDS, "not")
_ANNOTATION_KEYWORDS: Final = ("title", "description", "default", "examples", "deprecated", "$comment")
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_KNOWN_FORMATS: Final = (
    "date", "date-time", "time", "duration", "email", "idn-email", "hostname", "idn-hostname", "ipv4", "ipv6", "uri",
    "uri-reference", "iri", "iri-reference", "uri-template", "uuid", "json-pointer", "relative-json-pointer", "regex",
)  # fmt: skip
ARGUMENTS_LABEL: Final = "the arguments"
"""What all arguments are called as one value."""


# ── why a bound is refused ───────────────────────────────────────────────────────────────────────


def iter_bound_problems(bound: object, known: KnownSchema, place: str) -> Iterator[str]:
    """
    Yield every reason why *bound* cannot be enforced.

    Args:
        bound: The bound as it was written.
        known: What the tool says of the bounded value.
        place: What the value is called.
    """
    problems = [*_iter_schema_errors(bound, place), *_iter_keyword_problems(bound, known, place)]
    if not problems and isinstance(bound, dict):
        problems += _iter_compile_errors(bound, place)
    yield from dict.fromkeys(problems)


def _iter_schema_errors(bound: object, place: str) -> Iterator[str]:
    """Yield every violation of JSON Schema's own schema."""
    import jsonschema_rs

    if isinstance(bound, dict):
        meta_schema = jsonschema_rs.Draft202012Validator({"$ref": _DIALECT}, retriever=refuse_retrieval)
        for error in meta_schema.iter_errors(bound):
            yield _describe_invalid_schema(place, error.instance_path, error.message)


def _iter_compile_errors(bound: JsonSchema, place: str) -> Iterator[str]:
    import jsonschema_rs

    try:
        compile_schema(bound)
    except jsonschema_rs.ValidationError as error:
        yield _describe_invalid_schema(place, error.instance_path, error.message)
    except (ValueError, RecursionError) as error:
        yield _describe_invalid_schema(place, [], str(error))


def iter_digit_class_problems(schema: JsonSchema) -> Iterator[str]:
    """Yield each digit class that would admit the digits of every script, as it does beside a look-around."""
    patterns = [part["pattern"] for part in iter_schemas(schema) if isinstance(part.get("pattern"), str)]
    if not all(map(_is_linear_regex, patterns)):
        for pattern in patterns:
            if "\\d" in pattern or "\\D" in pattern:
                text = shorten_repr(pattern)
                yield f"beside a look-around, \\d in {text} means digits of all scripts; write [0-9]"


def _describe_invalid_schema(place: str, path: list[str | int], message: str) -> str:
    return f"{place}: {'.'.join(map(str, path)) or 'it'} is not valid JSON Schema: {shorten_repr(message, 160)}"


def _is_linear_regex(pattern: str) -> bool:
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=jsonschema_rs.RegexOptions())
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True


def _iter_keyword_problems(bound: object, known: KnownSchema, place: str) -> Iterator[str]:
    if isinstance(bound, bool):
        return
    if not isinstance(bound, dict):
        values, replacement = ("several allowed values", {"enum": bound}) if isinstance(bound, list) else (
            "one allowed value", {"const": bound})  # fmt: skip
        yield f"{place}: {shorten_repr(bound)} is not a JSON Schema; for {values} write {shorten_repr(replacement)}"
        return
    types = known.types
    if text := _list_text_constraints(bound, known):
        yield describe_decimal_texts(place, text)
    for keyword, value in bound.items():
        if problem := _find_keyword_problem(keyword, value, types):
            yield f"{place}: {problem}"
    yield from _iter_nested_problems(bound, known, place)


def _list_text_constraints(bound: JsonSchema, known: KnownSchema) -> list[str]:
    """Return what in a bound applies to text, where a value is a Decimal."""
    values = [*list_or_empty(bound.get("enum")), bound.get("const")]
    if known.is_whole:  # its own values are compared with what was given, which may be text
        values = []
    texts = [shorten_repr(text) for value in values for text in _iter_decimal_texts(value, known)]
    if not known.is_decimal_text():
        return texts
    return [*texts, *list_text_keywords(bound)]


def list_text_keywords(bound: JsonSchema) -> list[str]:
    """Return what in a bound applies to text, whichever text that is."""
    names = [repr(key) for key in bound if _TYPES_BY_KEYWORD.get(key) == "string"]
    is_text = "string" in (bound.get("type"), *list_or_empty(bound.get("type")))
    return [*names, *(["the type 'string'"] if is_text else [])]


def describe_decimal_texts(place: str, texts: list[str]) -> str:
    """Return why *texts*, which apply to text, cannot be in the bound of a `Decimal`."""
    return f"{place}: {', '.join(texts)} applies to text; a Decimal is compared as a number: write 5000, not '5000'"


def _iter_decimal_texts(value: object, known: KnownSchema) -> Iterator[str]:
    """Yield each text in *value* that stands where a Decimal does, and nothing else that may be text."""
    if isinstance(value, str):
        if known.is_decimal_text():
            yield value
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _iter_decimal_texts(item, known.get_item(index))
    elif isinstance(value, dict):
        for name, item in value.items():
            if (member := known.find_property(name)) is not None:
                yield from _iter_decimal_texts(item, member)


def _find_keyword_problem(keyword: str, value: object, types: frozenset[str]) -> str:
    if keyword not in _ALLOWED_KEYWORDS and keyword not in _ANNOTATION_KEYWORDS:
        suggestion = suggest_names(keyword, _ALLOWED_KEYWORDS, "; did you mean ")
        allowed = ", ".join(_ALLOWED_KEYWORDS)
        return f"{shorten_repr(keyword)} cannot be used in bounds{suggestion or '.'} The allowed keywords are {allowed}"
    if keyword in _TYPES_BY_KEYWORD and _TYPES_BY_KEYWORD[keyword] not in types:
        actual = " or ".join(sorted(types)) or "nothing"
        return f"{keyword!r} applies to {_TYPES_BY_KEYWORD[keyword]}, and this is {actual}"
    if keyword == "format" and value not in _KNOWN_FORMATS:
        suggestion = suggest_names(value, _KNOWN_FORMATS, "; did you mean ")
        return f"the format {shorten_repr(value)} is unknown{suggestion}"
    return ""


def _iter_nested_problems(bound: JsonSchema, known: KnownSchema, place: str) -> Iterator[str]:
    for part in [*(part for keyword in BRANCH_KEYWORDS for part in list_or_empty(bound.get(keyword))),
                 *([bound["not"]] if "not" in bound else [])]:  # fmt: skip
        yield from _iter_keyword_problems(part, known, place)
    properties = bound["properties"] if isinstance(bound.get("properties"), dict) else {}
    for name in dict.fromkeys([*properties, *map(str, list_or_empty(bound.get("required")))]):
        if (known_property := known.find_property(name)) is None:
            yield describe_unknown_property(known, name, f"{place}.")
        elif name in properties:
            yield from _iter_keyword_problems(properties[name], known_property, f"{place}.{name}")
    if "items" in bound:
        yield from _iter_keyword_problems(bound["items"], known.get_items(), f"{place}[]")
    if "additionalProperties" in bound:
        yield from _iter_keyword_problems(bound["additionalProperties"], known.get_other_members(), f"{place}.*")


def describe_unknown_property(known: KnownSchema, name: str, prefix: str = "") -> str:
    """Return the problem of a bound on a parameter or property that does not exist."""
    suggestion = suggest_names(name, known.property_names, "; did you mean ")
    return f"{prefix}{shorten_repr(name)}: there is no such parameter or property{suggestion}"


def is_restrictive(bound: object) -> bool:
    """Tell whether *bound* restricts anything at all."""
    if not isinstance(bound, dict):
        return bound is False
    for keyword, value in bound.items():
        if keyword == "allOf":
            restricts = any(map(is_restrictive, value))
        elif keyword == "anyOf":
            restricts = all(map(is_restrictive, value))
        elif keyword == "not":
            restricts = value is not False and (
                not isinstance(value, dict) or "not" not in value or is_restrictive(value["not"])
            )
        else:
            restricts = keyword not in _ANNOTATION_KEYWORDS
        if restricts:
            return True
    return False


# ── what is enforced ─────────────────────────────────────────────────────────────────────────────


def make_strict(schema: Any, *, inside_not: bool = False) -> Any:
    """Return *schema* with the types and the required properties that its keywords imply; not inside a `not`."""
    if not isinstance(schema, dict):
        return schema
    plain = {key: value for key, value in schema.items() if key not in _ANNOTATION_KEYWORDS and key != "not"}
    strict = map_subschemas(plain, lambda part: make_strict(part, inside_not=inside_not))
    if "not" in schema:
        strict["not"] = make_strict(schema["not"], inside_not=not inside_not)
    if inside_not:
        return strict
    implied_types = {_TYPES_BY_KEYWORD[keyword] for keyword in schema if keyword in _TYPES_BY_KEYWORD}
    if implied_types:
        strict.setdefault("type", sorted(implied_types))
    if "properties" in strict:
        strict.setdefault("required", list(strict["properties"]))
    return strict


def lift_to_given_and_filled(schema: Any) -> Any:
    """
    Return a strict schema of the arguments as a schema of `{"given": …, "filled": …}`.

    `enum` and `const` of all arguments compare what was given; every other keyword sees the defaults, too.
    """
    if not isinstance(schema, dict):
        return schema
    filled = {key: value for key, value in schema.items() if key not in ("enum", "const", "not", *BRANCH_KEYWORDS)}
    given = {key: schema[key] for key in ("enum", "const") if key in schema}
    lifted: JsonSchema = {"properties": {"filled": filled, "given": given}}
    for keyword in BRANCH_KEYWORDS:
        if keyword in schema:
            lifted[keyword] = [lift_to_given_and_filled(branch) for branch in schema[keyword]]
    if "not" in schema:
        lifted["not"] = lift_to_given_and_filled(schema["not"])
    return lifted
