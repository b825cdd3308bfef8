"""Redaction: no secret reaches the journal, and what is written instead still compares."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NewType, TypedDict
from urllib.parse import quote, quote_plus

import attrs
import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_strategies import EXAMPLES, HEAD, every_event, json_values, values
from type_strategies import ask

from praval_tools import Outcome, Problem, Secret, Tool
from praval_tools.errors import RedactionKeyError
from praval_tools.journal.codec import from_json, to_json
from praval_tools.journal.events import AgentToolCall, AgentToolResult, CallRefused, EventType, RecordedDecision
from praval_tools.journal.redaction.marker_key import KEY_VARIABLE, load_key
from praval_tools.journal.redaction.redactor import MARKER_PATTERN, RedactionPlan, Redactor
from praval_tools.journal.redaction.secret_names import DEFAULT_SECRET_NAMES, SecretNames, is_amount
from praval_tools.journal.redaction.secret_search import SecretMarkers, build_written_forms
from praval_tools.schema.coercion import Repair
from praval_tools.schema.encode import to_json_bytes

KEY = bytes(range(32))
REDACTOR = Redactor(key=KEY)
ANY = REDACTOR.build_plan()

KEYS = [
    "password", "Password", "user_password", "userPassword", "X-API-Key", "apikey", "api_keys", "access_token",
    "Authorization", "set-cookie", "client.secret", "PASSWD", "passwordHash", "token2", "AWS_SECRET_ACCESS_KEY",
]  # fmt: skip
VOCABULARY = f"{KEYS} null true false None True False Infinity where when user note list body say: bad no JSON praval:"
secret_keys = st.sampled_from(KEYS)
plain_keys = st.sampled_from(["user", "note", "m", "x y", "ok"])


def is_apart(text: str) -> bool:
    """Tell whether *text* is a secret that the words of these tests, and of JSON, do not show by chance."""
    return bool(text.strip()) and not shown(VOCABULARY, text) and text.lower() not in VOCABULARY.lower()


def forms(secret: str) -> set[str]:
    """Return how *secret* could be told from bytes: as it is, escaped, quoted, in base64."""
    data = secret.encode("utf-8", "surrogatepass")
    found = {secret, json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    found |= {b64encode(data).decode().rstrip("="), urlsafe_b64encode(data).decode().rstrip("=")}
    found |= {quote(data, safe=""), quote(data), quote_plus(data)}
    return found


def shown(data: bytes | str, secret: str) -> list[str]:
    """Return what *data* shows of *secret*: four characters in a row or more; markers say nothing."""
    text = data if isinstance(data, str) else data.decode("utf-8", "surrogatepass")
    text = MARKER_PATTERN.sub("\0", text)
    return [
        form[start : start + 4]
        for form in forms(secret)
        for start in range(len(form) - 3)
        if form[start : start + 4] in text
    ]


secret_texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), min_size=4, max_size=20).filter(
    lambda text: text.strip() == text and is_apart(text)
)
odd_secrets = st.text(st.characters(), min_size=4, max_size=20).filter(is_apart)


def written(one: Any, name: str) -> bytes:
    """Return the bytes that stand for one field of an event in its JSON; times and ids may hold any digits."""
    return to_json_bytes(json.loads(to_json(one))[name])


def event(arguments: Any, **more: Any) -> AgentToolCall:
    """Return a call event with these arguments."""
    return AgentToolCall(**HEAD, arguments=arguments, **more)


def plan(function: Any, redactor: Redactor = REDACTOR) -> RedactionPlan:
    """Return the plan for a tool made of *function*."""
    compiled = Tool.from_function(function, description="Do.").implementation.compiled
    return redactor.build_plan(compiled.parameters_schema, compiled.result_schema)


def plan_for(hint: Any) -> RedactionPlan:
    """Return the plan for a tool with one parameter `value` of *hint*."""

    def function(value: Any) -> str:
        return ""

    function.__annotations__["value"] = hint
    return plan(function)


@st.composite
def hidden(draw: st.DrawFn, secret: Any) -> Any:
    """Draw JSON that holds *secret* under the name of a secret, at any depth, also inside JSON text."""
    value: Any = {draw(secret_keys): draw(st.sampled_from([secret, [secret], {"x": secret}]))}
    for _ in range(draw(st.integers(0, 4))):
        shape = draw(st.sampled_from(["list", "dict", "text", "tuple", "wide text"]))
        if shape == "list":
            value = [draw(st.integers(0, 9)), value]
        elif shape == "tuple":
            value = (value,)
        elif shape == "dict":
            value = {draw(plain_keys): value, "n": draw(st.none() | st.booleans())}
        elif isinstance(value, tuple):
            value = [value]
        else:
            value = json.dumps(listed(value), ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, 2])))
    return value


def listed(value: Any) -> Any:
    """Return *value* with lists for tuples."""
    if isinstance(value, dict):
        return {key: listed(one) for key, one in value.items()}
    return list(map(listed, value)) if isinstance(value, list | tuple) else value


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
            "token: {hunter2x", "secret=[hunter2x]", "url=token=hunter2x",
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

        assert ("<Redactor>", "<1 secrets>") == (repr(REDACTOR), repr(secrets))


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


class TestNames:
    @given(secret_keys)
    def test_spelling_does_not_count(self, key: str) -> None:
        """Case, dashes, dots, camelCase, plurals and numbers at the end change nothing."""
        assert SecretNames(DEFAULT_SECRET_NAMES)(key)

    @pytest.mark.parametrize(
        "key", ["secretary", "tokenize", "author", "path", "passenger", "keyboard", "api", "key", "x", "", "monkey"]
    )
    def test_other_words(self, key: str) -> None:
        """Words that only begin alike are no names of secrets."""
        assert not SecretNames(DEFAULT_SECRET_NAMES)(key)

    def test_patterns_of_ones_own(self) -> None:
        """Patterns are words or regular expressions, and take the place of the default ones."""
        one = Redactor(["pin code", re.compile(r"^ssn\d$")], key=KEY).build_plan()
        clean, _ = one.redact_arguments(
            {"pinCode": "1234x", "ssn1": "5678x", "password": "shown", "t": "pin-code: 9999y"}
        )

        assert "shown" == clean["password"]
        assert [] == [text for text in ("1234x", "5678x", "9999y") if text in str(clean)]
        assert Redactor([], key=KEY).build_plan().redact_arguments({"password": "shown"})[0] == {"password": "shown"}

    def test_counting_names(self) -> None:
        """`max_tokens` counts, `token` does not."""
        assert (True, True, False) == (is_amount("max_tokens"), is_amount("tokenCount"), is_amount("token"))

    @given(odd_secrets)
    def test_forms_hold_the_secret_itself(self, secret: str) -> None:
        """Every text has forms, the text itself among them, for any character."""
        assert secret in build_written_forms(secret)
        assert SecretMarkers({secret: "x"}) | SecretMarkers() and not SecretMarkers()


RACER = """
import sys
from praval_tools.journal.redaction.marker_key import load_key

print("ready", flush=True)
for path in sys.stdin:
    print(load_key(path.strip(), environ={}).hex(), flush=True)
"""


class TestKey:
    def test_made_once_beside_the_store(self, tmp_path: Path) -> None:
        """The first process makes the file, for itself alone; later ones read it; nothing else is left behind."""
        store = tmp_path / "runs.db"
        key = load_key(store, environ={})

        assert (32, key) == (len(key), load_key(store, environ={}))
        assert 0o600 == stat.S_IMODE((tmp_path / "runs.db.key").stat().st_mode)
        assert ["runs.db.key"] == os.listdir(tmp_path)

    def test_two_processes_at_once(self, tmp_path: Path) -> None:
        """Processes that start together get the same key, every time."""
        pipe: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        racers = [subprocess.Popen([sys.executable, "-c", RACER], **pipe) for _ in range(5)]
        assert ["ready\n"] * 5 == [one.stdout.readline() for one in racers if one.stdout]
        for turn in range(30):
            for one in racers:
                assert one.stdin is not None
                one.stdin.write(f"{tmp_path}/runs{turn}.db\n")
            keys = {one.stdout.readline() for one in racers if one.stdout}

            assert 1 == len(keys) and 65 == len(keys.pop())
        for one in racers:
            one.communicate()
            assert 0 == one.returncode
        assert 30 == len(os.listdir(tmp_path))

    def test_the_environment_comes_first(self, tmp_path: Path) -> None:
        """`PRAVAL_TOOLS_KEY` is used as it is, and no file is made; too short a one is refused without being shown."""
        assert b"0123456789abcdef" == load_key(tmp_path / "x", environ={KEY_VARIABLE: "0123456789abcdef"})
        assert [] == os.listdir(tmp_path)
        with pytest.raises(RedactionKeyError, match="fewer than 16") as caught:
            load_key(None, environ={KEY_VARIABLE: "shortkey"})
        assert "shortkey" not in str(caught.value)

    def test_without_a_store(self) -> None:
        """A journal in memory has a key of its own."""
        assert load_key(None, environ={}) != load_key(None, environ={})

    @pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o660, 0o777])
    def test_wider_permissions(self, tmp_path: Path, mode: int) -> None:
        """A file that others can read or write is refused, with the command that mends it."""
        load_key(tmp_path / "x", environ={})
        (tmp_path / "x.key").chmod(mode)

        with pytest.raises(RedactionKeyError, match="chmod 600"):
            load_key(tmp_path / "x", environ={})

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
    def test_another_owner(self, tmp_path: Path) -> None:
        """A file of another user's is refused: that user knows the key."""
        load_key(tmp_path / "x", environ={})
        os.chown(tmp_path / "x.key", 12345, -1)

        with pytest.raises(RedactionKeyError, match="belongs to user 12345"):
            load_key(tmp_path / "x", environ={})

    def test_links_directories_pipes_and_damaged_files(self, tmp_path: Path) -> None:
        """Whatever else stands in its place is refused, never followed, replaced or waited for."""
        load_key(tmp_path / "real", environ={})
        (tmp_path / "link.key").symlink_to(tmp_path / "real.key")
        (tmp_path / "folder.key").mkdir(mode=0o700)
        os.mkfifo(tmp_path / "pipe.key", 0o600)
        for name, content in (("empty", b""), ("short", b"00ff"), ("junk", b"\xffkey material"), ("long", b"0" * 5000)):
            (tmp_path / f"{name}.key").write_bytes(content)
            (tmp_path / f"{name}.key").chmod(0o600)
        for name in ("link", "folder", "pipe", "empty", "short", "junk", "long"):
            with pytest.raises(RedactionKeyError) as caught:
                load_key(tmp_path / name, environ={})

            assert "material" not in str(caught.value) and KEY_VARIABLE in str(caught.value)

    def test_a_folder_that_does_not_exist(self, tmp_path: Path) -> None:
        """Where the file cannot be created the error says where, and what else can be done."""
        with pytest.raises(RedactionKeyError, match="cannot be created"):
            load_key(tmp_path / "none" / "x", environ={})


def test_examples_are_redacted_where_they_should_be() -> None:
    """The events of the golden file hold no secrets: redaction leaves them alone."""
    for kind in EventType:
        one = EXAMPLES[kind]
        mapping: Mapping[str, Any] = {"event": ANY.redact_event(one)[0]}

        assert to_json(one) == to_json(mapping["event"])
