"""
Refuses bounds that name a value in another spelling than the one in which bounds see it.

A UUID, a time or a path is read from its text and compared as the text that is written for it again. A bound that names
another spelling would refuse what it grants and, under `not`, admit what it names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from praval_tools.access.bounds.bound_schema import BRANCH_KEYWORDS, describe_decimal_texts, list_text_keywords
from praval_tools.access.bounds.bounded_values import BoundedValue
from praval_tools.access.bounds.satisfiability import list_or_empty
from praval_tools.names import shorten_repr
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Parameter
from praval_tools.schema.type_hints import format_hint


def iter_spelling_problems(schema: object, parameters: Sequence[Parameter]) -> Iterator[str]:
    """Yield why *schema*, a bound of all arguments, names texts that values of these parameters never have."""
    if not isinstance(schema, dict):
        return
    for part in _list_branches(schema):
        yield from iter_spelling_problems(part, parameters)
    places = {item.name: [BoundedValue(item.hint)] for item in parameters if item.kind == "normal"}
    others = [BoundedValue(item.hint) for item in parameters if item.kind == "extra"]
    for name, bound in _get_properties(schema).items():
        yield from _iter_bound_problems(bound, places.get(name, others), name)
    yield from _iter_bound_problems(schema.get("additionalProperties"), others, "*")


def _list_branches(bound: JsonSchema) -> list[object]:
    return [*(part for keyword in BRANCH_KEYWORDS for part in list_or_empty(bound.get(keyword))), bound.get("not")]


def _get_properties(bound: JsonSchema) -> JsonSchema:
    properties = bound.get("properties")
    return properties if isinstance(properties, dict) else {}


def _iter_bound_problems(bound: object, places: Sequence[BoundedValue], label: str) -> Iterator[str]:
    """
    Yield why a part of a bound names texts that a value never has.

    Args:
        bound: The part.
        places: What is declared of the value, several where it may be of one of several types; none: nothing.
        label: What the value is called.
    """
    if not isinstance(bound, dict) or not places:
        return
    for value in [*list_or_empty(bound.get("enum")), bound.get("const")]:
        yield from _iter_value_problems(value, places, label)
    texts = [place for place in places if not place.is_never_text] or [BoundedValue(str)]
    if all(place.is_decimal_of_model for place in texts) and (keywords := list_text_keywords(bound)):
        yield describe_decimal_texts(label, keywords)
    if all(place.is_text_of_bytes for place in texts) and (keywords := list_text_keywords({**bound, "type": None})):
        yield f"{label}: {', '.join(keywords)} applies to text; bytes of a pydantic model are compared as base64"
    for part in _list_branches(bound):
        yield from _iter_bound_problems(part, places, label)
    properties = _get_properties(bound)
    for name in dict.fromkeys([*properties, *map(str, list_or_empty(bound.get("required")))]):
        yield from _iter_name_problems(name, places, label)
        members = [member for place in places for member in place.get_members(name)]
        yield from _iter_bound_problems(properties.get(name), members, f"{label}.{name}")
    items = [item for place in places for item in place.get_items()]
    yield from _iter_bound_problems(bound.get("items"), items, f"{label}[]")
    members = [member for place in places for member in place.get_other_members()]
    yield from _iter_bound_problems(bound.get("additionalProperties"), members, f"{label}.*")


def _iter_value_problems(value: object, places: Sequence[BoundedValue], label: str) -> Iterator[str]:
    """Yield each text in *value*, which a bound names, that is in another spelling than the one that is compared."""
    if not places:
        return
    if isinstance(value, str):
        texts = [place for place in places if not place.is_never_text] or places
        problems = [_find_text_problem(value, place, label) for place in texts]
        yield from problems[:1] if all(problems) else ()
    elif isinstance(value, list):
        found = False
        for index, item in enumerate(value):
            items = [part for place in places for part in place.get_items(index)]
            for problem in _iter_value_problems(item, items, label):
                found = True
                yield problem
        orders = [place.find_set_order(value) for place in places]
        if not found and None not in orders:
            yield f"{label}: {shorten_repr(value)}: a set is compared in one order: write {shorten_repr(orders[0])}"
    elif isinstance(value, dict):
        problems = [
            problem for name, item in value.items() for problem in _iter_member_problems(name, item, places, label)
        ]
        yield from problems
        lacking = [place.list_lacking_fields(value) for place in places]
        if not problems and all(lacking):
            text = f"{shorten_repr(value)} lacks {', '.join(map(repr, lacking[0]))}"
            yield f"{label}: {text}, and is compared with its defaults: write them, too, or bounds of its properties"


def _iter_member_problems(name: str, value: object, places: Sequence[BoundedValue], label: str) -> Iterator[str]:
    yield from _iter_name_problems(name, places, label)
    yield from _iter_value_problems(value, [member for place in places for member in place.get_members(name)], label)


def _find_text_problem(text: str, place: BoundedValue, label: str) -> str:
    """Return why values of *place* are never compared as *text*; empty where they may be."""
    if place.is_never_text:
        return f"{label}: {shorten_repr(text)} is text, which no {format_hint(place.bare_hint)} is"
    if not place.may_change_texts:
        return ""
    try:
        written = place.write(text)
    except ValueError:
        problem = f"{label}: {shorten_repr(text)} is not a possible {format_hint(place.bare_hint)}"
        return problem if place.refuses_other_texts else ""
    if not isinstance(written, str):
        is_number = place.is_decimal_of_model and not isinstance(written, list | dict)
        return describe_decimal_texts(label, [shorten_repr(text)]) if is_number else ""
    return _describe_other_spelling(text, written, place.write, label)


def _iter_name_problems(name: str, places: Sequence[BoundedValue], label: str) -> Iterator[str]:
    """Yield why no object has a key that is spelt as *name*, although another spelling is a key."""
    problems = [_find_name_problem(name, place, label) for place in places]
    yield from problems[:1] if all(problems) else ()


def _find_name_problem(name: str, place: BoundedValue, label: str) -> str:
    key_places = place.get_keys()
    if not key_places:
        return ""
    problems = list[str]()
    for key_place in key_places:
        try:
            written = key_place.write_key(name)
        except ValueError:
            kind = format_hint(key_place.bare_hint)
            problems.append(f"{label}: the key {shorten_repr(name)} is not a possible {kind}")
        else:
            problems.append(_describe_other_spelling(name, written, key_place.write_key, label))
    return problems[0] if all(problems) else ""


def _describe_other_spelling(text: str, written: str, write: Callable[[str], object], label: str) -> str:
    """Return why *text*, which is compared as *written*, cannot be named; empty where that is the same."""
    if text == written:
        return ""
    try:
        is_stable = write(written) == written
    except ValueError:
        is_stable = False
    if is_stable:
        return f"{label}: {shorten_repr(text)} is compared in another spelling: write {shorten_repr(written)}"
    return f"{label}: {shorten_repr(text)} is compared as {shorten_repr(written)}, so no text can be named here"
