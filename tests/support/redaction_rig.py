"""Secrets, the forms in which they are written, and the redactor of the tests."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote, quote_plus

from hypothesis import strategies as st
from journal_strategies import HEAD

from praval_tools import Tool
from praval_tools.journal.codec import to_json
from praval_tools.journal.events import AgentToolCall
from praval_tools.journal.redaction.redactor import MARKER_PATTERN, RedactionPlan, Redactor
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
    """Return how *secret* could be read from bytes: as it is, escaped, quoted, in base64."""
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
