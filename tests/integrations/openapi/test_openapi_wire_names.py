"""What was judged is what a service reads: no value is read as another parameter, member or item."""

# Tests of: bodies, requests, styles

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("fastapi")

from openapi_rig import (
    OPERATOR,
    Recorder,
    call,
    make_body,
    make_document,
    make_operation,
    make_parameter,
    service,  # noqa: F401
)

from praval_tools import Outcome, ToolRegistry

FREE = {"type": "object"}
LIMITED = {"type": "integer", "maximum": 10}
FORM = "application/x-www-form-urlencoded"
FIELDS = {"type": "object", "properties": {"amount": LIMITED, "meta": {"type": "object"}}}


def send(service: tuple[Recorder, str], arguments: Any, *parameters: Any, **members: Any) -> tuple[Outcome, int]:
    """Call an operation with *parameters*; return how that ended, and how many requests were sent."""
    recorder, url = service
    components = members.pop("components", {})
    operation = make_operation("op", *parameters, **members)
    document = make_document({"/a": {"post": operation}}, server=url, components=components)
    before = len(recorder.requests)
    with ToolRegistry() as registry:
        registry.register_openapi(document, namespace="x", owned_by=OPERATOR)
        outcome = call(registry, "x-op", arguments).outcome
    return outcome, len(recorder.requests) - before


REFUSED, SENT = (Outcome.TOOL_ERROR, 0), (Outcome.OK, 1)


@pytest.mark.parametrize("key", ["a][b", "a]", "a[b", "[a", "]"])
@pytest.mark.parametrize("nested", [False, True])
def test_keys_do_not_nest(service: tuple[Recorder, str], key: str, nested: bool) -> None:
    """A key with brackets would be read as the member of another object, which bounds did not see."""
    parameter = make_parameter("f", style="deepObject", explode=True, schema=FREE)
    value = {"z": {key: 1000}} if nested else {key: 1000}

    assert REFUSED == send(service, {"f": value}, parameter)


@pytest.mark.parametrize("key", ["per.page", "per page", "per[page", "PER.PAGE", " per_page", "per.page[]"])
@pytest.mark.parametrize("place", ["query", "cookie"])
def test_free_keys_are_no_other_parameter_to_php(service: tuple[Recorder, str], place: str, key: str) -> None:
    """Broken promise: it reads dots, blanks and open brackets as underscores, and takes the last of one name."""
    parameters = (
        make_parameter("per_page", place, schema=LIMITED),
        make_parameter("g", place, explode=True, schema=FREE),
    )
    body = make_body({"type": "object", "properties": {"per_page": LIMITED}}, FORM)

    assert REFUSED == send(service, {"per_page": 5, "g": {key: 1000}}, *parameters)
    assert SENT == send(service, {"per_page": 5, "g": {"per": 1, "page": 1}}, *parameters)
    assert REFUSED == send(service, {"body": {"per_page": 5, key: 1000}}, requestBody=body)


@pytest.mark.parametrize("key", ["f", "F", "f[]", "f[a]", "f[a", " f", "f ", "f\0", "f.a"])
@pytest.mark.parametrize("place", ["query", "cookie"])
def test_free_keys_are_no_other_parameter(service: tuple[Recorder, str], place: str, key: str) -> None:
    """However services read names: without case, blanks and what follows a zero, and members by brackets or dots."""
    parameters = make_parameter("f", place, schema=LIMITED), make_parameter("g", place, explode=True, schema=FREE)

    assert REFUSED == send(service, {"g": {key: 1000}}, *parameters)
    assert SENT == send(service, {"g": {"of": 1000, "": 1}}, *parameters)


def test_members_are_no_other_parameter(service: tuple[Recorder, str]) -> None:
    """Where a member of an object is a parameter of its own, it is given as that; its siblings are free."""
    parameters = (
        make_parameter("f", style="deepObject", explode=True, schema=FREE),
        make_parameter("f[limit]", schema=LIMITED),
    )

    assert REFUSED == send(service, {"f": {"limit": 1000}}, *parameters)
    assert SENT == send(service, {"f": {"offset": 1000}}, *parameters)


PAGE = {"type": "object", "properties": {"limit": LIMITED}}


def test_a_blank_at_the_end_is_an_underscore_to_php(service: tuple[Recorder, str]) -> None:
    """A free key `from ` is read as the parameter `from_`."""
    parameters = make_parameter("from_", schema=LIMITED), make_parameter("g", explode=True, schema=FREE)

    assert REFUSED == send(service, {"g": {"from ": 1000}}, *parameters)
    assert SENT == send(service, {"g": {"from": 1000}}, *parameters)


def make_objects(place: str, schema: Any = PAGE) -> list[Any]:
    """Return parameters with two objects whose members are parameters on the wire; the second is free."""
    return [make_parameter("page", place, schema=schema), make_parameter("filter", place, schema=FREE, style="form")]


def make_form(schema: Any = PAGE) -> dict[str, Any]:
    """Return the body of a form with the same two objects."""
    encoding = {name: {"style": "form", "explode": True} for name in ("page", "filter")}
    return make_body({"type": "object", "properties": {"page": schema, "filter": FREE}}, FORM, encoding=encoding)


@pytest.mark.parametrize(
    "value",
    [
        {"filter": {"limit": 1000}},
        {"filter": {"LIMIT": 1000}},
        {"filter": {"limit[]": 1000}},
        {"page": {"limit": 5}, "filter": {"limit": 1000}},
        {"page": {"x": 5}, "filter": {"x": 1000}},
        {"page": {"limit": 5, "LIMIT": 1000}},
        {"page": {"limit": 5, "limit[]": 1000}},
    ],
)
@pytest.mark.parametrize("schema", [PAGE, {"allOf": [{"$ref": "#/components/schemas/Page"}]}])
def test_members_of_two_objects_stay_apart(service: tuple[Recorder, str], value: Any, schema: Any) -> None:
    """A free key is not read as the member of another object, whose bounds it would escape, nor as one of its own."""
    components = {"schemas": {"Page": PAGE}}
    fine = {"page": {"limit": 5, "x": 1}, "filter": {"y": 1000}}
    for place in ("query", "cookie"):
        parameters = make_objects(place, schema)
        assert REFUSED == send(service, value, *parameters, components=components)
        assert SENT == send(service, fine, *parameters, components=components)
    body = make_form(schema)
    assert REFUSED == send(service, {"body": value}, requestBody=body, components=components)
    assert SENT == send(service, {"body": {**fine, "z": 1}}, requestBody=body, components=components)


def test_a_field_is_no_member_of_another(service: tuple[Recorder, str]) -> None:
    """A field that the document does not name is not read as a member of one that it names."""
    assert REFUSED == send(service, {"body": {"limit": 1000}}, requestBody=make_form())
    assert REFUSED == send(service, {"body": {"x": 1000, "filter": {"x": 1}}}, requestBody=make_form())


@pytest.mark.parametrize("key", ["LIMIT", " limit", "limit.x"])
def test_keys_are_no_member_of_the_same_object(service: tuple[Recorder, str], key: str) -> None:
    """Of an object that is written with its name, too."""
    parameter = make_parameter("page", style="deepObject", explode=True, schema=PAGE)

    assert REFUSED == send(service, {"page": {"limit": 5, key: 1000}}, parameter)
    assert SENT == send(service, {"page": {"limit": 5, "offset": 1000}}, parameter)


@pytest.mark.parametrize(
    ("media_type", "style", "value"),
    [
        (FORM, "form", {"meta": {"amount": 1000}}),
        (FORM, "form", {"meta": {"Amount": 1000}}),
        (FORM, "form", {"amount[]": 1000}),
        (FORM, "deepObject", {"meta[x]": 1000}),
        (FORM, "deepObject", {"meta": {"x][y": 1000}}),
        ("multipart/form-data", None, {"AMOUNT": 1000}),
        ("multipart/form-data", None, {"meta[x]": 1000}),
    ],
)
def test_fields_are_no_other_field(
    service: tuple[Recorder, str], media_type: str, style: str | None, value: dict[str, Any]
) -> None:
    """Of a form, also where the other one is not given; fields that the document does not name are free."""
    encoding = {} if style is None else {"encoding": {"meta": {"style": style, "explode": True}}}
    body = make_body(FIELDS, media_type, **encoding)

    assert REFUSED == send(service, {"body": value}, requestBody=body)
    assert SENT == send(service, {"body": {"amount": 1, "meta": {"x": 1}, "other[x]": 1}}, requestBody=body)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (make_parameter("t", style="spaceDelimited", explode=False), ["a b"]),
        (make_parameter("t", style="pipeDelimited", explode=False), ["a|b"]),
        (make_parameter("t", style="pipeDelimited", explode=False), {"a": "x|role|admin"}),
        (make_parameter("t", "header"), ["a,b"]),
        (make_parameter("t", "header"), {"a": "x,role,admin"}),
        (make_parameter("t", "header"), {"a,role": "x"}),
        (make_parameter("t", "header", explode=True), {"a": "x,role=admin"}),
        (make_parameter("t", "header", explode=True), {"role=admin": "x"}),
    ],
)
def test_one_item_is_not_read_as_several(service: tuple[Recorder, str], parameter: Any, value: Any) -> None:
    """Where a service cannot tell what is between items from what is in them."""
    assert REFUSED == send(service, {"t": value}, parameter)
    assert SENT == send(service, {"t": ["a", "b"]}, parameter)
    assert SENT == send(service, {"t": {"a": "x", "role": "y"}}, parameter)


@pytest.mark.parametrize("value", ["x;admin", "a,b", "a/b"])
def test_a_value_of_a_cookie_begins_no_other(service: tuple[Recorder, str], value: str) -> None:
    """`allowReserved` is of queries alone, as the specification says: a semicolon would begin another cookie."""
    recorder, _ = service

    assert SENT == send(service, {"c": value}, make_parameter("c", "cookie", allowReserved=True))
    assert recorder.last["headers"]["cookie"] == f"c={quote(value, safe='')}"


@pytest.mark.parametrize("explode", [False, True])
@pytest.mark.parametrize("value", [[], {}])
def test_an_empty_header_is_not_sent(service: tuple[Recorder, str], value: object, explode: bool) -> None:
    """It would be read as one of an empty text, or as one that was not given."""
    assert REFUSED == send(service, {"X-A": value}, make_parameter("X-A", "header", explode=explode))


@pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
def test_a_header_is_sent_once(service: tuple[Recorder, str], name: str) -> None:
    """What the caller gives takes the place of the library's own, whatever the case of its name."""
    recorder, _ = service

    assert SENT == send(service, {name: "clerk"}, make_parameter(name, "header"))
    assert recorder.last["headers"]["user-agent"] == "clerk"
