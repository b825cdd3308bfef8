"""Values are read by what they hold; a value that only its own code can read is refused, and its place named."""

from __future__ import annotations

import re
from collections import UserList, deque
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from ipaddress import AddressValueError, IPv4Address, IPv4Interface, IPv6Address, IPv6Network
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import HttpUrl, NameEmail, PostgresDsn
from pydantic_core import ArgsKwargs, MultiHostUrl, PydanticCustomError, Some, TzInfo, Url
from type_classes import Color, Even, Pair
from type_strategies import FORMS, json_for

from praval_tools.schema.decode_hooks import DecodeHooks
from praval_tools.schema.encode import Encoder
from praval_tools.schema.type_handler import Unencodable
from praval_tools.schema.value_reader import ValueReader

NOT_STORED = {"dataclass"}
"""Rows with a field that is gone after `__init__`."""

ROWS = sorted(FORMS.keys() - NOT_STORED)


class Words(list[str]):
    def __iter__(self) -> Any:
        return iter(["harmless"])


class Lies:
    def __get__(self, instance: object, owner: object = None) -> int:
        return 1


class SlyZone(tzinfo):
    """Has another offset each time."""

    hours = 0

    def utcoffset(self, moment: datetime | None) -> timedelta:
        self.hours += 1
        return timedelta(hours=self.hours)


class Single(NamedTuple):
    """One value."""

    amount: int


class SlySingle(Single):
    """Has the value of `Single`, and says that it is another one."""

    amount = Lies()  # type: ignore[assignment]


class SlyText:
    """Writes itself, and anything that takes its text, as it likes."""

    def __str__(self) -> str:
        raise AssertionError("code of a value ran")

    __format__ = to_bytes = __str__  # type: ignore[assignment]


SLY_ERROR = AddressValueError(SlyText())
SLY_URL, SLY_ADDRESS, SLY_MAIL = HttpUrl("http://a.test/"), IPv4Address("10.0.0.1"), NameEmail("a", "a@b.test")
SLY_URL._url = SLY_ADDRESS._ip = SLY_MAIL.name = SlyText()  # type: ignore[attr-defined, assignment]

ADDRESSES = [
    Url("http://a.test/"), MultiHostUrl("postgres://a,b/c"), HttpUrl("http://a.test/"), PostgresDsn("postgres://a,b/c"),
    NameEmail("a", "a@b.test"), IPv4Interface("10.0.0.1"), IPv6Network("fe80::/10"), IPv6Address("fe80::1%eth0"),
]  # fmt: skip


@dataclass
class Tail(deque[int]):
    """Holds items beside its field."""

    length: int


@dataclass(init=False)
class SlyOrder:
    """Keeps its value under another name."""

    amount: int

    def __init__(self, amount: int) -> None:
        self.real_amount = amount


SlyOrder.amount = Lies()  # type: ignore[assignment]


class TestReading:
    @settings(max_examples=200)
    @given(st.sampled_from(ROWS), st.data())
    def test_values_of_the_type_table_are_read_as_they_are_written(self, row: str, data: st.DataObject) -> None:
        """Where no class writes itself, what judges see of given fields is the JSON that the type table writes."""
        value = DecodeHooks().get_hook(FORMS[row])(data.draw(json_for(FORMS[row])), None)

        reader = ValueReader(keep_decimal=False, reads_made_fields=False)
        assert Encoder().get_hook(FORMS[row])(value) == reader.read(value)

    def test_decimals_stay_for_exact_comparison(self) -> None:
        """A Decimal stays one, wherever it is, and is text only where JSON is asked for."""
        value = {"a": [Decimal("0.1"), (Decimal(2),)]}

        assert value["a"] is not ValueReader().read(value)["a"]
        assert {"a": [Decimal("0.1"), [Decimal(2)]]} == ValueReader().read(value)
        assert {"a": ["0.1", ["2"]]} == ValueReader(keep_decimal=False).read(value)

    @pytest.mark.parametrize(
        "zone", [UTC, timezone(timedelta(hours=2)), ZoneInfo("Europe/Berlin"), TzInfo(7200)], ids=str
    )
    def test_times_of_known_zones(self, zone: tzinfo) -> None:
        """Zones of Python and of pydantic are as they are."""
        value = datetime(2020, 1, 1, tzinfo=zone)

        assert value == datetime.fromisoformat(str(ValueReader().read(value)))

    def test_classes_containers_and_keys(self) -> None:
        """Fields are read where they are stored, in containers of all kinds, and keys become text."""
        value = {
            Color.RED: [Even(2), Pair(1)],
            2: {3, 2},
            True: IPv4Address("10.0.0.1"),
            "a": deque([re.compile("(?i)b")]),
        }

        assert {
            "red": [{"number": 2}, {"first": 1, "second": "x"}],
            "2": [2, 3],
            "true": "10.0.0.1",
            "a": ["(?i)b"],
        } == ValueReader().read(value)

    @pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: type(address).__name__)
    def test_addresses(self, address: object) -> None:
        """An address is its text."""
        assert str(address) == ValueReader().read(address)


class TestRefusing:
    @pytest.mark.parametrize(
        "value",
        [Words(["evil"]), UserList([1]), iter([1]), object(), float("nan")],
        ids=lambda value: type(value).__name__,
    )
    def test_names_the_place(self, value: object) -> None:
        """What only its own code can read is refused with its place, deep inside of other values."""
        with pytest.raises(Unencodable, match=r"\$\.a\[1\]\.number"):
            ValueReader().read({"a": [0, {"number": value}]})

    def test_a_field_that_is_missing(self) -> None:
        """An instance that lost a field is refused, not read without it."""

        @dataclass
        class Order:
            amount: int

        order = Order(1)
        del order.amount

        with pytest.raises(Unencodable, match="amount"):
            ValueReader().read(order)

    @pytest.mark.parametrize("value", [{1: 1000, "1": 1}, {Color.RED: 1, "red": 2}, {True: 1, "true": 2}], ids=str)
    def test_two_keys_of_one_text(self, value: dict[object, int]) -> None:
        """Broken promise: judges were shown one of them, and the tool got both."""
        with pytest.raises(Unencodable, match="is the text of two keys"):
            ValueReader().read(value)

    @pytest.mark.parametrize("value", [datetime(2020, 1, 1, tzinfo=SlyZone()), time(1, tzinfo=SlyZone())], ids=str)
    def test_a_time_zone_with_code_of_its_own(self, value: object) -> None:
        """Broken promise: its class was asked for the offset that a judge was shown, and later for that of the tool."""
        with pytest.raises(Unencodable, match="time zone of the class SlyZone"):
            ValueReader().read([value])

    @pytest.mark.parametrize(
        "value",
        [
            ArgsKwargs((SlyText(),)), Some(SlyText()), PydanticCustomError("a", "{n}", {"n": SlyText()}), SLY_ERROR,
            SLY_URL, SLY_ADDRESS, SLY_MAIL,
        ],
        ids=lambda value: type(value).__name__,
    )  # fmt: skip
    def test_what_pydantic_and_ipaddress_have_beside_addresses(self, value: object) -> None:
        """Broken promise: an error of pydantic was judged by its text, which code of a value in it wrote."""
        with pytest.raises(Unencodable, match=r"read by its own code"):
            ValueReader().read(value)

    @pytest.mark.parametrize("value", [re.compile("a", re.I), re.compile(b"a")], ids=str)
    def test_a_pattern_with_more_than_a_text(self, value: object) -> None:
        """Two expressions that find other texts are not judged by one text."""
        with pytest.raises(Unencodable, match="regular expression"):
            ValueReader().read(value)

    def test_a_class_that_is_a_deque(self) -> None:
        """Broken promise: fields of a class that is a deque were read, its items were not."""
        with pytest.raises(Unencodable, match="own code"):
            ValueReader().read(Tail(1))

    def test_a_value_inside_itself(self) -> None:
        """A list that holds itself is refused."""
        value: list[Any] = []
        value.append(value)

        with pytest.raises(Unencodable, match="inside itself"):
            ValueReader().read(value)


class TestDescriptors:
    @pytest.mark.parametrize("value", [SlySingle(99), SlyOrder(99)], ids=["tuple", "dataclass"])
    def test_that_compute_a_field_are_not_asked(self, value: object) -> None:
        """Broken promise: fields are read where they are stored; `__get__` without `__set__` was asked for them."""
        with pytest.raises(Unencodable, match="amount is not stored"):
            ValueReader().read(value)
