# Tests of: decode_hooks, hook_dispatch, json_values
"""Arguments meant to break the reader: whatever comes, a call gives a result, soon and in little memory."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, AnyStr, Literal, TypeVar
from uuid import UUID

import pytest
from annotated_types import MultipleOf
from hypothesis import given, settings
from hypothesis import strategies as st
from type_classes import Json
from type_strategies import Folder, ask, echo, given_tool

from praval_tools import Outcome, Problem, ToolArgumentsError, ToolResult

MIB = 1 << 20


def nested(depth: int, leaf: Any = None) -> Any:
    """Return a list in lists, *depth* of them."""
    value: Any = [] if leaf is None else leaf
    for _ in range(depth):
        value = [value]
    return value


def folders(depth: int) -> Any:
    """Return an object in objects, *depth* of them."""
    value: Any = {"name": "x"}
    for _ in range(depth):
        value = {"name": "x", "inside": {"y": value}}
    return value


def cyclic() -> dict[str, Any]:
    """Return an object that holds itself twice."""
    made: dict[str, Any] = {}
    made["value"] = [made, {"again": made}]
    return made


class Raises(dict):  # type: ignore[type-arg]
    """A dict whose methods raise."""

    def _raise(self, *_: object) -> Any:
        raise ZeroDivisionError

    __getitem__ = get = items = keys = values = __iter__ = __len__ = _raise  # type: ignore[assignment]


class RaisingList(list):  # type: ignore[type-arg]
    """A list whose iteration raises."""

    def __iter__(self) -> Iterator[Any]:
        raise ZeroDivisionError


class Unshowable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise ZeroDivisionError


class Text(str):
    """A subclass of text whose methods raise."""

    def encode(self, *_: object) -> bytes:  # type: ignore[override]
        raise ZeroDivisionError

    def strip(self, *_: object) -> str:  # type: ignore[override]
        raise ZeroDivisionError


class Whole(int):
    """A subclass of int."""


class Fraction(float):
    """A subclass of float."""


TEXTS: dict[str, Any] = {
    "10,000 lists": '{"value":' + "[" * 10_000 + "]" * 10_000 + "}",
    "10,000 objects": '{"value":' * 10_000 + "1" + "}" * 10_000,
    "a mebibyte of open brackets": "[" * MIB,
    "10,000 objects, open": '{"value":' * 10_000,
    "65 levels": '{"value":' + "[" * 65 + "]" * 65 + "}",
    "more than a mebibyte": '{"value":"' + "x" * MIB + '"}',
    "more than a mebibyte in UTF-8": '{"value":"' + "é" * (MIB // 2) + '"}',
    "more than a mebibyte of blanks": " " * MIB + "{}",
    "more than a mebibyte of bytes": b'{"value":"' + b"x" * MIB + b'"}',
    "a key twice": '{"value":1,"value":2}',
    "a key twice, escaped": '{"value":1,"v\\u0061lue":2}',
    "a key twice inside": '{"value":{"a":1,"b":[{"c":1,"c":1}]}}',
    "a key twice in a long object": '{"value":{' + ",".join(f'"k{n % 999}":1' for n in range(1000)) + "}}",
    "a lone surrogate, escaped": '{"value":"\\ud800"}',
    "a lone low surrogate, escaped": '{"value":"\\udc00x"}',
    "surrogates in the wrong order": '{"value":"\\udc00\\ud800"}',
    "a lone surrogate": '{"value":"\ud800"}',
    "a lone surrogate in a key": '{"\\ud800":1}',
    "5,000 digits": '{"value":' + "9" * 5_000 + "}",
    "minus 5,000 digits": '{"value":[-' + "9" * 5_000 + "]}",
    "a megabyte of digits": '{"value":' + "9" * 1_000_000 + "}",
    "1e400": '{"value":1e400}',
    "-1e400": '{"value":-1e400}',
    "1e999999999": '{"value":1e999999999}',
    "NaN": '{"value":NaN}',
    "Infinity": '{"value":Infinity}',
    "-Infinity": '{"value":[-Infinity]}',
    "NUL": '{"value":"a\0b"}',
    "NUL bytes": b"\0\0\0\0",
    "NUL after the object": '{"value":1}\0',
    "UTF-16": '{"value":"x"}'.encode("utf-16"),
    "UTF-16 without mark": '{"value":"x"}'.encode("utf-16-le"),
    "UTF-32": '{"value":"x"}'.encode("utf-32"),
    "Latin-1": '{"value":"é"}'.encode("latin-1"),
    "Latin-1 in a key": '{"valué":1}'.encode("latin-1"),
    "Latin-1 in a long text": ('{"value":"' + "é" * 200 + '","a":[1]}').encode("latin-1"),
    "cut UTF-8": '{"value":"é"}'.encode()[:-3] + b'"}',
    "overlong UTF-8": b'{"value":"\xc0\xaf"}',
    "a surrogate in UTF-8": b'{"value":"\xed\xa0\x80"}',
    "UTF-7": '{"value":"é"}'.encode("utf-7") + b"\x80",
    "random bytes": bytes(range(256)),
    "a comment": '{"value":1 /* one */}',
    "two objects": '{"value":1}{"value":1}',
    "a trailing comma": '{"value":1,}',
    "single quotes": "{'value':1}",
    "a control character": '{"value":"a\nb"}',
}
"""Texts that no hint takes."""

NO_JSON: dict[str, Callable[[], Any]] = {
    "10,000 lists": lambda: {"value": nested(10_000)},
    "10,000 objects": lambda: {"value": folders(10_000)},
    "65 lists": lambda: {"value": nested(65)},
    "a cycle": cyclic,
    "an integer of 5,001 digits": lambda: {"value": 10**5_000},
    "a negative one, inside": lambda: {"value": [{"a": -(10**5_000)}]},
    "one as a key": lambda: {10**5_000: 1},
    "NaN": lambda: {"value": float("nan")},
    "infinity inside": lambda: {"value": [{"a": float("inf")}]},
    "a lone surrogate": lambda: {"value": "\ud800"},
    "a lone surrogate in a key": lambda: {"\udfff": 1},
    "a key that is a number": lambda: {1: 2},
    "a key that is None": lambda: {"value": {None: 1}},
    "keys of several types": lambda: {"value": {(1, 2): 3, b"x": 4, True: 5}},
    "bytes": lambda: {"value": b"x"},
    "a set": lambda: {"value": {1, 2}},
    "an object": lambda: {"value": object()},
    "an object that cannot be shown": lambda: {"value": Unshowable()},
    "a generator": lambda: {"value": (n for n in range(3))},
    "a function": lambda: {"value": print},
    "a date": lambda: {"value": date(2026, 1, 1)},
    "a Decimal": lambda: {"value": Decimal("1.5")},
    "a complex number": lambda: {"value": 1j},
    "an object as arguments": object,
    "what cannot be shown as arguments": Unshowable,
    "a class as arguments": lambda: int,
    "a UserDict": lambda: UserDict(value=1),
    "a memoryview": lambda: memoryview(b'{"value": 1}'),
    "pairs": lambda: [("value", 1)],
}
"""Arguments that are no JSON, whatever the hint."""

HINTS: dict[str, Any] = {
    "Any": Any, "int": int, "str": str, "list": list, "dict": dict, "dict[str, int]": dict[str, int],
    "recursive class": Folder, "recursive alias": Json, "union": int | list[int] | dict[str, int] | None,
}  # fmt: skip


def assert_refused(result: ToolResult) -> None:
    """Assert that the arguments were refused, in a text that stays short."""
    assert Outcome.INVALID_ARGUMENTS is result.outcome
    assert isinstance(result.exception, ToolArgumentsError)
    assert all(isinstance(one, Problem) and one.reason for one in result.exception.problems)
    assert len(str(result.error)) <= 2_000
    str(result.error).encode()


class TestText:
    @pytest.mark.parametrize("hint", HINTS)
    @pytest.mark.parametrize("text", TEXTS)
    def test_that_is_no_usable_json_is_refused(self, text: str, hint: str) -> None:
        """Text that is malformed, ambiguous, too long, too deep or too large is refused like any bad argument."""
        assert_refused(ask(echo(HINTS[hint]), TEXTS[text]))

    @pytest.mark.parametrize("text", TEXTS)
    def test_is_refused_for_a_given_schema(self, text: str) -> None:
        """A tool with a given schema refuses the same texts."""
        assert_refused(ask(given_tool({"type": "object", "properties": {"value": {}}}), TEXTS[text]))

    @pytest.mark.parametrize("text", [name for name, one in TEXTS.items() if isinstance(one, str)])
    @pytest.mark.parametrize("hint", [list, dict[str, Any], int, list[Folder] | dict[str, int]], ids=str)
    def test_inside_of_text_is_not_repaired(self, text: str, hint: Any) -> None:
        """Text in a value that looks like JSON and is none gets no repair and no crash."""
        assert_refused(ask(echo(hint), {"value": TEXTS[text]}))

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ('{"value":"a\\u0000b"}', "a\0b"),
            ('{"value":"\\ud83d\\ude00"}', "\U0001f600"),
            ('{"value":' + "9" * 4_000 + "}", int("9" * 4_000)),
            ('{"value":-' + "9" * 4_000 + "}", -int("9" * 4_000)),
            ('{"value":1e-400}', 0.0),
            ('{"value":' + "[" * 62 + "]" * 62 + "}", nested(61)),
            ('{"value":{"":1," ":2}}', {"": 1, " ": 2}),
            ('{"value":"' + "x" * (MIB - 20) + '"}', "x" * (MIB - 20)),
        ],
        ids=lambda one: ascii(one)[:30],
    )
    def test_that_is_only_unusual_is_taken(self, text: str, expected: Any) -> None:
        """What is odd and still JSON within the limits comes through unchanged."""
        result = ask(echo(Any), text)

        assert Outcome.OK is result.outcome, result.error
        assert expected == result.result


class TestObjects:
    @pytest.mark.parametrize("hint", HINTS)
    @pytest.mark.parametrize("made", NO_JSON)
    def test_that_json_cannot_carry_are_refused(self, made: str, hint: str) -> None:
        """Python values that are no JSON give a result that says so; what they raise never comes out of the call."""
        assert_refused(ask(echo(HINTS[hint]), NO_JSON[made]()))

    @pytest.mark.parametrize("made", NO_JSON)
    def test_are_refused_for_a_given_schema(self, made: str) -> None:
        """A tool with a given schema refuses the same."""
        assert_refused(ask(given_tool({"type": "object", "properties": {"value": {}}}), NO_JSON[made]()))

    @pytest.mark.parametrize(
        "value", [Whole(3), Fraction(1.5), str.__new__(Text, "x")], ids=lambda one: type(one).__name__
    )
    def test_of_subclasses_of_json_types_end_in_a_result(self, value: Any) -> None:
        """A value of a subclass is taken as what it is or refused: one of the two, never a crash."""
        assert ask(echo(Any), {"value": value}).outcome in (Outcome.OK, Outcome.INVALID_ARGUMENTS)

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (Raises(value=1), 1), ({"value": Raises(a=1)}, {"a": 1}), ({"value": RaisingList([1])}, [1]),
            (Text('{"value": [1, 2]}'), [1, 2]),
        ],
        ids=["a dict", "a dict, inside", "a list, inside", "text"],
    )  # fmt: skip
    def test_whose_own_methods_raise_are_taken(self, arguments: Any, expected: object) -> None:
        """What a subclass of a JSON type holds is read by the methods of that type, never by its own."""
        result = ask(echo(Any), arguments)

        assert (Outcome.OK, expected) == (result.outcome, result.result)

    def test_that_are_dicts_of_another_class_are_taken(self) -> None:
        """An OrderedDict is an object, on the outside and inside."""
        result = ask(echo(dict[str, int]), OrderedDict(value=OrderedDict(a=1)))

        assert Outcome.OK is result.outcome, result.error
        assert {"a": 1} == result.result


HUGE: dict[str, tuple[Any, Any]] = {
    "100,000 unknown keys": (int, lambda: {str(n): n for n in range(100_000)}),
    "100,000 wrong values": (dict[str, int], lambda: {"value": {str(n): "x" for n in range(100_000)}}),
    "100,000 wrong keys": (dict[int, int], lambda: {"value": {f"k{n}": 1 for n in range(100_000)}}),
    "100,000 wrong items": (list[int], lambda: {"value": ["x"] * 100_000}),
    "100,000 wrong items of a union": (list[int | list[int]], lambda: {"value": [{}] * 100_000}),
    "100,000 wrong objects": (list[Folder], lambda: {"value": [{"nme": 1}] * 100_000}),
    "100,000 equal items of a set": (set[str], lambda: {"value": ["x"] * 100_000}),
    "10 million characters for a number": (int, lambda: {"value": "x" * 10**7}),
    "10 million digits": (float, lambda: {"value": "9" * 10**7}),
    "10 million characters for a choice": (Literal["a", "b"], lambda: {"value": "b" * 10**7}),
    "10 million characters for a time": (datetime, lambda: {"value": "2" * 10**7}),
    "10 million characters for a UUID": (UUID, lambda: {"value": "0" * 10**7}),
    "a million zeros of a Decimal": (Decimal, lambda: {"value": "0" * 10**6}),
    "a million open brackets in text": (list, lambda: {"value": "[" * 10**6}),
    "a key of a million characters": (int, lambda: {"value": 1, "x" * 10**6: 1}),
    "10,000 near keys": (int, lambda: {f"valu{n}": n for n in range(10_000)}),
    "a Decimal with a huge exponent": (Decimal, lambda: {"value": "1e99999"}),
    "a huge number for a multiple": (Annotated[float, MultipleOf(0.01)], lambda: {"value": "1e300x"}),
}  # fmt: skip


class TestSize:
    @pytest.mark.parametrize("name", HUGE)
    def test_huge_arguments_are_refused_in_little_memory(self, name: str) -> None:
        """However much is wrong, the error is short, and refusing takes at most a hundred megabytes more."""
        hint, make = HUGE[name]
        tool, arguments = echo(hint), make()
        tracemalloc.start()
        try:
            result = ask(tool, arguments)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

        assert_refused(result)
        assert peak < 100 * MIB

    def test_many_members_are_taken(self) -> None:
        """A hundred thousand members that fit are no problem."""
        made = {str(n): n for n in range(100_000)}

        assert made == ask(echo(dict[str, int]), {"value": made}).result

    def test_many_repairs_end(self) -> None:
        """A hundred thousand values that have to be repaired are repaired."""
        result = ask(echo(list[int]), {"value": ["3"] * 100_000})

        assert Outcome.OK is result.outcome, result.error
        assert 100_000 == len(result.repairs)

    def test_values_shared_at_every_level_end(self) -> None:
        """A list that holds one list twice, sixty levels deep, is small in memory and endless as JSON: refused."""
        program = (
            "import resource; resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
            "from typing import Any\n"
            "from type_strategies import ask, echo\n"
            "value = []\n"
            "for _ in range(60): value = [value, value]\n"
            "print(*(ask(echo(hint), {'value': value}).outcome.value for hint in (Any, int, list)))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=Path(__file__).parents[1] / "support",
            capture_output=True,
            text=True,
            timeout=60,
        )

        assert ["invalid_arguments"] * 3 == done.stdout.split(), done.stderr[-500:]


class TestAnyBytes:
    @settings(max_examples=300)
    @given(st.binary(max_size=60) | st.text(max_size=60).map(lambda one: one.encode("utf-16")) | st.text(max_size=60))
    def test_give_a_result(self, raw: Any) -> None:
        """Whatever bytes or text come as arguments, the call ends in a result."""
        assert ask(echo(Any, 1), raw).outcome in (Outcome.OK, Outcome.INVALID_ARGUMENTS)

    @settings(max_examples=300)
    @given(st.binary(max_size=12))
    def test_inside_of_a_value_give_a_result(self, inside: bytes) -> None:
        """The same for bytes inside of a text that is JSON around them."""
        raw = b'{"value":"' + inside + b'"}'

        assert ask(echo(Any), raw).outcome in (Outcome.OK, Outcome.INVALID_ARGUMENTS)


class TestTypeVariables:
    @pytest.mark.parametrize(
        ("variable", "fitting", "wrong"),
        [(TypeVar("Number", int, float), 3, "3.5x"), (AnyStr, "text", 5), (TypeVar("Small", bound=int), 3, [3])],
        ids=["constraints", "AnyStr", "bound"],
    )
    def test_constraints_and_bounds_are_checked(self, variable: Any, fitting: Any, wrong: Any) -> None:
        """
        Broken promise: what the schema says of a type is what is accepted; a type variable accepted anything.
        """
        tool = echo(variable)

        assert fitting == ask(tool, {"value": fitting}).result
        assert Outcome.INVALID_ARGUMENTS is ask(tool, {"value": wrong}).outcome
