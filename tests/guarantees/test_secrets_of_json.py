"""Secrets whose text is JSON themselves are hidden wherever a record quotes them as a part of JSON."""

# Tests of: journal/nested_json

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

import pytest

from praval_tools import Secret, ToolCall, ToolRegistry
from praval_tools.journal.redaction.redactor import MARKER_PATTERN
from praval_tools.loop import ToolLoop
from praval_tools.testing import fake_model

SECRETS = [
    "[174,47,154,16,202,193,206,113]",
    "[174, 47, 154, 16, 202, 193, 206, 113]",
    "[\n  174,\n  47\n]",
    '["ab","cd","ef"]',
    '[["ab", "cd"], {"x": "ef"}]',
    '{"sk_live_51Habc": true}',
    '{"user":"bob","pin":4711}',
    "174, 47, 154, 16",
    '"ab", "cd", "ef"',
    'ab","cd","ef',
    r"C:\new\table",
]
PLACES = {
    "whole": "{}", "spaced": " {}\n", "list": '["x", {}]', "member": '{"said": {}, "user": "x"}', "message": "Not {}!",
    "twice": '[{}, [1, {}], "y"]', "in quotes": '{"a": "{}"}', "deep": '{"a": [{"b": [{}]}]}', "joined": "[{}]{}",
}  # fmt: skip


def read_events(registry: ToolRegistry) -> str:
    """Return what the journal holds, with the texts in it as they are."""
    events = list(registry.journal.events()) if registry.journal else []
    members = [getattr(one, name, None) for one in events for name in ("arguments", "result", "error", "reply")]
    return "\n".join(_iter_texts(members))


def _iter_texts(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for pair in value.items() for text in _iter_texts(list(pair))]
    if isinstance(value, list):
        return [text for item in value for text in _iter_texts(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("secret", SECRETS)
class TestSecretsThatAreJson:
    """Broken promise: of a text that is JSON only the members were searched, so that such secrets were recorded."""

    def test_are_hidden_in_all_records(self, secret: str, place: str) -> None:
        """In results, as they are and in text, in other arguments, in errors and in replies of models."""
        text = place.replace("{}", secret)
        with ToolRegistry(journal="memory") as registry:

            @registry.tool("load", shared=True)
            def load(key: Annotated[str, Secret], note: str, fails: bool) -> Any:
                """Load a wallet."""
                if fails:
                    raise ValueError(text)
                return [text, {"said": text}, json.dumps({"said": text}), text.encode()]

            calls = [
                ToolCall(str(fails), "load", {"key": secret, "note": text, "fails": fails}) for fails in (True, False)
            ]
            ToolLoop(registry.agent("ann"), fake_model(calls, text)).run("Go.", "r")
            recorded = read_events(registry)

        assert MARKER_PATTERN.search(recorded)
        assert secret not in recorded


def test_what_is_around_them_stays() -> None:
    """Where the secret is a value of its own in JSON text, the rest of this is recorded as JSON text."""
    secret = SECRETS[1]
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("load", shared=True)
        def load(key: Annotated[str, Secret]) -> list[str]:
            """Load a wallet."""
            return [key, f" {key}", f'{{"key": {key}, "token": "x1", "user": "bob", "n": 174}}', f"[{key}, {key}]"]

        registry.execute(ToolCall("c", "load", {"key": secret}, "ann"))
        called, returned = registry.journal.events()

    marker = called.arguments["key"]
    whole, spaced, inside, twice = returned.result
    assert (marker, marker, [marker, marker]) == (whole, spaced, json.loads(twice))
    found = json.loads(inside)
    assert MARKER_PATTERN.fullmatch(found.pop("token"))
    assert {"key": marker, "user": "bob", "n": 174} == found


def count_steps(times: int) -> int:
    """Return how many functions run for a call whose result quotes a secret so often, in JSON text."""
    secret, count = 'ab"cd', 0

    def notice(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    with ToolRegistry(journal="memory") as registry:

        @registry.tool("load", shared=True)
        def load(key: Annotated[str, Secret]) -> list[str]:
            """Load a wallet."""
            return [json.dumps([key * times]), json.dumps([key] * times), f'["{"a" * 5}{key[:2]}"]']

        sys.setprofile(notice)
        try:
            registry.execute(ToolCall("c", "load", {"key": secret}, "ann"))
        finally:
            sys.setprofile(None)

        assert json.dumps(secret)[1:-1] not in read_events(registry)
    return count


def test_are_found_quickly() -> None:
    """Long JSON text with many secrets in it, in escapes as well, is searched in steps in proportion to its length."""
    count_steps(10)
    fewer, more = count_steps(2_000), count_steps(20_000)
    assert fewer < more < 12 * fewer


@pytest.mark.parametrize("secret", ['pa"ss\\word9', """it's "quoted" here"""])
@pytest.mark.parametrize("place", ["argument", "result", "error"])
def test_in_a_list_as_python_writes_it(secret: str, place: str) -> None:
    """Broken promise: a list of JSON texts, as Python writes it, was recorded with the secret in it."""
    written = str([json.dumps({"k": secret})])
    with ToolRegistry(journal="memory") as registry:

        @registry.tool("load", shared=True)
        def load(key: Annotated[str, Secret], body: str = "") -> str:
            """Load."""
            if place == "error":
                raise ValueError(written)
            return written

        arguments = {"key": secret, "body": written if place == "argument" else ""}
        registry.execute(ToolCall("c", "load", arguments, "ann"))
        assert "word9" not in read_events(registry) and "quoted" not in read_events(registry)
