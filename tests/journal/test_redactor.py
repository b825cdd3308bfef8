"""Redaction: no secret is stored in any form, equal secrets have equal markers, and all else stays as it is."""

# Tests of: secret_tree, nested_json

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NewType, TypedDict

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_strategies import EXAMPLES, HEAD, every_event, json_values, values
from redaction_rig import (
    ANY,
    REDACTOR,
    event,
    forms,
    hidden,
    odd_secrets,
    plan,
    plan_for,
    secret_texts,
    shown,
    written,
)
from type_strategies import ask

from praval_tools import Outcome, Problem, Secret, Tool
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import AgentToolResult, CallRefused, EventType
from praval_tools.journal.recorded_decisions import RecordedDecision
from praval_tools.journal.redaction.redactor import MARKER_PATTERN, Redactor
from praval_tools.schema.coercion import Repair


class TestNothingIsShown:
    @given(st.data(), odd_secrets)
    def test_anywhere_in_the_arguments(self, data: st.DataObject, secret: str) -> None:
        """Under the name of a secret, however deep and in whatever text: the written bytes show none of it."""
        arguments = {"where": data.draw(hidden(secret)), "when": 5}
        clean, _ = ANY.redact_event(event(arguments))

        assert [] == shown(written(clean, "arguments"), secret)

    @given(st.data(), secret_texts)
    def test_anywhere_else_in_the_same_call(self, data: st.DataObject, secret: str) -> None:
        """What is secret in one place is secret in all: other arguments, keys, the result, in any written form."""
        form = data.draw(st.sampled_from(sorted(forms(secret))))
        around = data.draw(st.sampled_from(["{}", "« {} »", '{{"x": "{}"}}', "{}{}"])).replace("{}", form)
        call, secrets = ANY.redact_event(event({"password": secret, "note": around, form: 1, "list": [[around]]}))
        value = {"body": [around, around.encode("utf-8", "surrogateescape")], form: form}
        result, _ = ANY.redact_event(AgentToolResult(**HEAD, outcome=Outcome.OK, result=value), secrets)

        for one, name in ((call, "arguments"), (result, "result")):
            assert form not in MARKER_PATTERN.sub("\0", written(one, name).decode())
            assert form not in MARKER_PATTERN.sub("\0", str(getattr(from_json(to_json(one)), name)))

    @given(secret_texts, st.integers(0, 20), st.integers(4, 20), st.sampled_from(["{}", "bad '{}…'", "{}: no", "a={}"]))
    def test_parts_of_it_in_messages(self, secret: str, start: int, size: int, message: str) -> None:
        """Error texts quote and cut; no four characters in a row of a secret are left in one."""
        _, secrets = ANY.redact_arguments({"password": secret})
        for form in sorted(forms(secret)):
            text = message.replace("{}", form[start % len(form) :][:size])
            whole = {*(form[at : at + 4] for at in range(len(form) - 3))}
            clean = MARKER_PATTERN.sub("\0", ANY.redact_text(text, secrets))

            assert [] == [part for part in whole if part in clean], (text, clean)

    @given(secret_texts.filter(lambda text: not set(text) & set("\"'\\")), st.data())
    def test_json_that_is_cut_off_or_broken(self, secret: str, data: st.DataObject) -> None:
        """A model that runs out of tokens sends half of a JSON text; that call is refused, and journaled without."""
        value = {"a": [1, {"user": "x", "api_key": secret, "n": 5}]}
        whole = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
        cut = data.draw(st.integers(0, len(whole)))
        ways = [whole[:cut], whole[:cut] + "}", whole + ",", "say: " + whole, f"{whole!r}"]
        broken = data.draw(st.sampled_from(ways))
        refusal = CallRefused(**HEAD, outcome=Outcome.INVALID_ARGUMENTS, arguments=broken, error=f"no JSON: {broken}")
        clean, _ = ANY.redact_event(refusal)

        assert [] == shown(written(clean, "arguments") + written(clean, "error"), secret)

    @given(odd_secrets)
    def test_a_repeated_key(self, secret: str) -> None:
        """A key that comes twice hides nothing behind the second one."""
        text = f'{{"password": {json.dumps(secret)}, "password": null}}'

        assert [] == shown(written(ANY.redact_event(event({"x": text}))[0], "arguments"), secret)

    @pytest.mark.parametrize(
        "text",
        [
            "password=hunter2x", "PASSWORD : hunter2x", "login(password='hunter2x')", "{'password': 'hunter2x'}",
            "https://x/?user=a&access_token=hunter2x", "Authorization: Bearer hunter2x", "x-api-key: hunter2x;",
            '\\"password\\": \\"hunter2x\\"', "<Login password='hunter2x'>", "cookie=\"a=1; s=hunter2x\"",
            "token: {hunter2x", "secret=[hunter2x]", "url=token=hunter2x", "mysql --password=hunter2x",
            "--api-key=hunter2x", "java -Dpassword=hunter2x", "Command '['mysql', '--password=hunter2x']' failed",
            "user[password]=hunter2x", "éPassword=hunter2x",
        ],
    )  # fmt: skip
    def test_said_in_a_message(self, text: str) -> None:
        """Messages that name a secret are understood where they are no JSON."""
        assert [] == shown(ANY.redact_text(text), "hunter2x")
        assert "hunter2x" not in ANY.redact_text(f"{text} and hunter2x once more")

    def test_quoted_by_problems_repairs_and_decisions(self) -> None:
        """What is wrong with arguments quotes them; these texts are cleaned, too."""
        note = RecordedDecision(allowed=False, rule="granted", reason="password 'hunter2x' is not in the enum")
        refusal = CallRefused(
            **HEAD,
            outcome=Outcome.FORBIDDEN,
            arguments={"password": "hunter2x"},
            decision=note,
            problems=(Problem(path="$.password", reason="'hunter2x' is bad", given='"hunt…r2x"'),),
        )
        call = event({"password": "hunter2x"}, repairs=(Repair("$", "hunter2x", "hunter2x", "spelled"),), decision=note)

        for one in (refusal, call):
            assert [] == shown(to_json(ANY.redact_event(one)[0]), "hunter2x")

    def test_objects_and_bytes(self) -> None:
        """What is no JSON at all is searched as the text that will be written."""

        class Login:
            def __repr__(self) -> str:
                return "Login(password='hunter2x')"

        for junk in (Login(), [Login()], b'{"password": "hunter2x"}', {"a": b"token=hunter2x"}, {Login()}):
            refusal = CallRefused(**HEAD, outcome=Outcome.INVALID_ARGUMENTS, arguments=junk)

            assert [] == shown(to_json(ANY.redact_event(refusal)[0]), "hunter2x")

    def test_numbers(self) -> None:
        """A number may be a secret, and come back as text or the other way round."""
        clean, secrets = ANY.redact_arguments({"password": 73915, "x": [73915, "a 73915"], "token": "90210"})

        assert "73915" not in MARKER_PATTERN.sub("", str(clean))
        assert "90210" not in MARKER_PATTERN.sub("", str(ANY.redact_result({"zip": 90210, "s": "90210"}, secrets)))

    def test_headers_as_a_list(self) -> None:
        """Where a name stands beside its value, the name decides."""
        headers = [{"name": "Authorization", "value": "Bearer hunter2x"}, {"key": "lang", "value": "en"}]
        clean, secrets = ANY.redact_arguments({"headers": headers})

        assert [] == shown(json.dumps(clean), "hunter2x") + shown(ANY.redact_text("bad hunter2x", secrets), "hunter2x")
        assert "en" == clean["headers"][1]["value"]

    def test_the_key_is_never_shown(self) -> None:
        """Neither a redactor nor its secrets tell what they know when they are printed."""
        secrets = ANY.redact_arguments({"password": "hunter2x"})[1]

        assert ("<Redactor>", "<1 secret>") == (repr(REDACTOR), repr(secrets))


@dataclass
class Login:
    user: str
    code: Annotated[str, Secret]
    spare: list[Annotated[str, Secret()]] = field(default_factory=list)


@attrs.frozen
class Server:
    host: str
    login: Login | None = None
    next: Server | None = None


class Vault(TypedDict):
    items: dict[str, Annotated[int, Secret]]


Pin = NewType("Pin", Annotated[str, Secret])  # type: ignore[valid-newtype]


class TestMarked:
    @pytest.mark.parametrize(
        ("hint", "value"),
        [
            (Annotated[str, Secret], "hunter2x"),
            (Annotated[str, Secret()], "hunter2x"),
            (Annotated[str | None, "text", Secret], "hunter2x"),
            (Annotated[str, Secret] | int, "hunter2x"),
            (int | list[Annotated[str, Secret]], ["hunter2x"]),
            (list[Annotated[str, Secret]], ["a", "hunter2x"]),
            (dict[str, Annotated[str, Secret]], {"a": "hunter2x"}),
            (dict[Annotated[str, Secret], int], {"hunter2x": 1}),
            (tuple[int, Annotated[str, Secret]], [1, "hunter2x"]),
            (Login, {"user": "a", "code": "hunter2x"}),
            (list[Login | int], [1, {"user": "a", "code": "x", "spare": ["y", "hunter2x"]}]),
            (Server, {"host": "a", "next": {"host": "b", "login": {"user": "hunter2x?", "code": "hunter2x"}}}),
            (Vault, {"items": {"a": 7391555}}),
            (Annotated[Login, Secret], {"user": "hunter2x", "code": "a"}),
            (Annotated[dict[str, Any], Secret], {"deep": [{"er": "hunter2x"}]}),
            (Pin, "hunter2x"),
            (list[Pin] | Pin, "hunter2x"),
            (Annotated[bytes, Secret], "aHVudGVyMng="),
        ],
        ids=str,
    )  # fmt: skip
    def test_wherever_the_mark_stands(self, hint: Any, value: Any) -> None:
        """`Annotated[…, Secret]` counts inside classes, lists, dicts, tuples, unions, aliases, and recursively."""
        one = plan_for(hint)
        for written_as in (value, json.dumps(value) if not isinstance(value, str) else value):
            text = to_json(one.redact_event(event({"value": written_as}))[0])

            assert MARKER_PATTERN.search(text.decode())
            for secret in ("hunter2x", "aHVudGVyMng", "7391555"):
                assert secret not in MARKER_PATTERN.sub("", text.decode())

    @given(st.integers(0, 60))
    def test_in_arguments_that_are_no_json(self, cut: int) -> None:
        """A marked parameter is known by its name in a text that breaks off, at any place."""
        text = '{"value": {"user": "ann", "code": "hunter2x", "spare": 1}}'[:cut]
        refusal = CallRefused(**HEAD, outcome=Outcome.INVALID_ARGUMENTS, arguments=text, error=f"bad: {text}")
        clean, _ = plan_for(Login).redact_event(refusal)

        assert [] == shown(written(clean, "arguments") + written(clean, "error"), "hunter2x")

    def test_what_is_beside_it_stays(self) -> None:
        """Only what is marked is hidden."""
        clean, _ = plan_for(Server).redact_arguments(
            {"value": {"host": "a", "login": {"user": "bob", "code": "hunter2x"}}}
        )

        assert ("a", "bob") == (clean["value"]["host"], clean["value"]["login"]["user"])
        assert MARKER_PATTERN.fullmatch(clean["value"]["login"]["code"])

    def test_of_a_tool_with_a_given_schema(self) -> None:
        """A tool without hints marks its secrets in JSON Schema: `writeOnly`, or the format `password`."""
        schema = {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/k"}, "b": {"type": "string", "format": "password"}, "c": True},
            "patternProperties": {"^p": {"type": "string", "writeOnly": True}},
            "$defs": {"k": {"allOf": [{"type": "string"}, {"writeOnly": True}]}},
        }
        clean, _ = REDACTOR.build_plan(schema).redact_arguments(
            {"a": "one1", "b": "two2", "c": "three", "pin": "four4"}
        )

        assert ["a", "b", "pin"] == [name for name, one in clean.items() if MARKER_PATTERN.fullmatch(one)]

    @pytest.mark.parametrize(
        ("schema", "value"),
        [
            ({"type": "string", "contentSchema": {"properties": {"card": {"writeOnly": True}}}}, '{"card":"zq7x91"}'),
            ({"dependentSchemas": {"a": {"properties": {"card": {"writeOnly": True}}}}}, {"a": 1, "card": "zq7x91"}),
            ({"unevaluatedProperties": {"writeOnly": True}}, {"card": "zq7x91"}),
            ({"contains": {"properties": {"card": {"writeOnly": True}}}}, [{"card": "zq7x91"}]),
            ({"prefixItems": [{}], "unevaluatedItems": {"writeOnly": True}}, ["a", "zq7x91"]),
            ({"items": [{"writeOnly": True}]}, ["zq7x91"]),
            ({"items": [{}], "additionalItems": {"writeOnly": True}}, ["a", "zq7x91"]),
            ({"dependencies": {"a": {"properties": {"a": {"writeOnly": True}}, "b": ["a"]}}}, {"a": "zq7x91"}),
            ({"$ref": "#card", "$defs": {"x": {"$anchor": "card", "writeOnly": True}}}, "zq7x91"),
            ({"$dynamicRef": "#card", "$defs": {"x": {"$dynamicAnchor": "card", "writeOnly": True}}}, "zq7x91"),
            ({"$ref": "#unknown", "$defs": {"x": {"writeOnly": True}}}, "zq7x91"),
            ({"items": {"type": "object"}, "contains": {"properties": {"card": {"writeOnly": True}}}},
             [{"card": "zq7x91"}]),
        ],
    )  # fmt: skip
    def test_by_rarer_keywords_of_a_given_schema(self, schema: dict[str, Any], value: Any) -> None:
        """In a text of JSON, and where other members or items have a schema."""
        whole = {"type": "object", "properties": {"value": schema}}
        clean, found = REDACTOR.build_plan(whole).redact_arguments({"value": value})

        assert "zq7x91" not in str(clean)
        assert found.get_marker("zq7x91")

    def test_a_default_is_not_shown_to_models(self) -> None:
        """A secret that is the default of a parameter stays out of the schema; leaving it out still uses it."""

        def login(code: Annotated[str, Secret] = "hunter2x", spare: Annotated[str, Secret] | None = "hunter2x") -> str:
            return code

        tool = Tool.from_function(login, description="Log in.")

        assert "hunter2x" not in json.dumps(tool.implementation.compiled.parameters_schema)
        assert "hunter2x" == ask(tool, {}).result

    def test_the_tool_is_the_same_otherwise(self) -> None:
        """The mark adds `writeOnly` to the schema and changes nothing in what is accepted, or in what arrives."""

        def login(code: Annotated[str, Secret], n: int = 1) -> str:
            return code

        tool = Tool.from_function(login, description="Log in.")
        schema = tool.implementation.compiled.parameters_schema

        assert {"type": "string", "writeOnly": True} == schema["properties"]["code"]
        assert jsonschema_rs.validator_for(schema).is_valid({"code": "x"})
        assert {"code": "x"} == tool.implementation.compiled.decode_arguments({"code": "x"})
        assert "x" == tool(code="x")
        assert "Secret()" == repr(Secret())


class TestMarkers:
    @given(json_values, json_values)
    def test_equal_exactly_for_equal_values(self, one: Any, other: Any) -> None:
        """Replay compares markers as it would compare values; the type of a value counts."""
        same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)

        assert same == (REDACTOR.make_marker(one) == REDACTOR.make_marker(other))

    def test_another_key_gives_another_marker(self) -> None:
        """Who has the journal and not the key cannot try out guesses."""
        assert REDACTOR.make_marker("hunter2x") != Redactor(key=b"another key of 16").make_marker("hunter2x")

    def test_the_same_in_arguments_results_and_messages(self) -> None:
        """One secret has one marker in all events of a store, so that it can be followed without being known."""
        clean, secrets = ANY.redact_arguments({"password": "hunter2x"})
        mark = clean["password"]

        assert [f"{mark}!", mark] == ANY.redact_result(["hunter2x!", "hunter2x"], secrets)
        assert f"no {mark} here" == ANY.redact_text("no hunter2x here", secrets)

    def test_an_empty_key_is_refused(self) -> None:
        """A digest without a key could be guessed."""
        with pytest.raises(ValueError, match="empty"):
            Redactor(key=b"")


class TestNothingToHide:
    @given(values.filter(lambda value: not REDACTOR.secret_names.prefilter.search(repr(value))))
    def test_the_rest_stays_as_it_is(self, value: Any) -> None:
        """Without secrets nothing changes; JSON is not even copied."""
        assert value == ANY.redact_arguments(value, is_validated=False)[0]

    @given(every_event.filter(lambda one: not REDACTOR.secret_names.prefilter.search(repr(one))))
    def test_redacting_an_event_without_secrets(self, one: Any) -> None:
        """An event without secrets is itself; whatever it holds, it is written without complaint."""
        clean, secrets = ANY.redact_event(one)

        assert to_json(one) == to_json(clean)
        assert not secrets

    def test_a_plan_of_numbers_looks_at_nothing(self) -> None:
        """Two floats hold no text: the very same dict comes back, whatever its names are."""

        def area(width: float, height: float) -> float:
            return width * height

        arguments = {"width": 1.0, "height": 2.0}
        one = plan(area)

        assert arguments is one.redact_arguments(arguments)[0]
        assert 5.0 == one.redact_result(5.0)

    def test_numbers_under_the_name_of_a_secret(self) -> None:
        """A pass code may be a number; a plan knows that by the parameter's name."""

        def open_door(passcode: int, width: float) -> bool:
            return True

        clean, _ = plan(open_door).redact_arguments({"passcode": 4711, "width": 4.5})

        assert MARKER_PATTERN.fullmatch(clean["passcode"]) and 4.5 == clean["width"]

    def test_what_only_counts_or_says_nothing(self) -> None:
        """Amounts, flags and empty values under such names are no secrets."""
        value = {"max_tokens": 100, "token_count": 5, "use_password": True, "password": None, "token": "", "cookies": 2}

        assert value is ANY.redact_arguments(value)[0]
        assert "token=null; max_tokens=100" == ANY.redact_text("token=null; max_tokens=100")

    def test_short_secrets_stay_where_they_are_given(self) -> None:
        """Fewer than four characters are hidden in their own place and looked for nowhere else."""
        clean, secrets = ANY.redact_arguments({"password": "abc", "note": "abcdef", "token": "true"})

        assert (
            "abcdef" == clean["note"]
            and MARKER_PATTERN.fullmatch(clean["password"])
            and MARKER_PATTERN.fullmatch(clean["token"])
        )
        assert "abc is true" == ANY.redact_text("abc is true", secrets)

    def test_a_message_that_only_speaks_of_tokens(self) -> None:
        """What a message itself calls a token is hidden, and nothing that merely resembles it."""
        assert "unexpected end, token: [] unexpected" == MARKER_PATTERN.sub(
            "[]", ANY.redact_text("unexpected end, token: expectations unexpected")
        )


def test_examples_are_redacted_where_they_should_be() -> None:
    """The events of the golden file hold no secrets: redaction leaves them alone."""
    for kind in EventType:
        one = EXAMPLES[kind]
        mapping: Mapping[str, Any] = {"event": ANY.redact_event(one)[0]}

        assert to_json(one) == to_json(mapping["event"])
