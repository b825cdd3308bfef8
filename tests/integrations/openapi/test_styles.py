"""Values of parameters are written as RFC 6570 and the specification say, and leave their places in no way."""

# Tests of: styles

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from praval_tools.integrations.openapi import OpenApiRequestError
from praval_tools.integrations.openapi.styles import (
    ParameterStyle,
    check_path,
    write_cookies,
    write_header,
    write_path_value,
    write_query_pairs,
)

COLORS = ["blue", "black"]
COLOR = {"R": 100, "G": 200}


def make_style(place: Any, style: str, explode: bool, **more: Any) -> ParameterStyle:
    """Return the style of a parameter `color`."""
    return ParameterStyle(name="color", place=place, style=style, explode=explode, **more)


def write_query(style: str, explode: bool, value: object, **more: Any) -> str:
    """Return a value as a query."""
    return "&".join(
        f"{name}={text}" for name, text in write_query_pairs(make_style("query", style, explode, **more), value)
    )


class TestPaths:
    @pytest.mark.parametrize(
        ("style", "explode", "value", "expected"),
        [
            ("simple", False, "blue", "blue"),
            ("simple", False, COLORS, "blue,black"),
            ("simple", True, COLORS, "blue,black"),
            ("simple", False, COLOR, "R,100,G,200"),
            ("simple", True, COLOR, "R=100,G=200"),
            ("label", False, "blue", ".blue"),
            ("label", False, COLORS, ".blue,black"),
            ("label", True, COLORS, ".blue.black"),
            ("label", False, COLOR, ".R,100,G,200"),
            ("label", True, COLOR, ".R=100.G=200"),
            ("matrix", False, "blue", ";color=blue"),
            ("matrix", False, COLORS, ";color=blue,black"),
            ("matrix", True, COLORS, ";color=blue;color=black"),
            ("matrix", False, COLOR, ";color=R,100,G,200"),
            ("matrix", True, COLOR, ";R=100;G=200"),
            ("simple", False, True, "true"),
            ("simple", False, 1.5, "1.5"),
            ("simple", False, "a b?c#d%2f;é", "a%20b%3Fc%23d%252f%3B%C3%A9"),
        ],
    )
    def test_are_written_as_the_specification_shows(
        self, style: str, explode: bool, value: object, expected: str
    ) -> None:
        """The examples of the specification, and characters that have a meaning in URLs."""
        assert expected == write_path_value(make_style("path", style, explode), value)

    def test_json_is_one_value(self) -> None:
        """A parameter with a content is JSON text."""
        style = make_style("path", "simple", False, is_json=True)

        assert "%7B%22R%22%3A1%7D" == write_path_value(style, {"R": 1})

    @pytest.mark.parametrize("value", ["", [], {}, [""], None])
    def test_empty_values_are_refused(self, value: object) -> None:
        """Nothing in place of a parameter is another path, as that of all items."""
        with pytest.raises(OpenApiRequestError, match="'color' is empty"):
            write_path_value(make_style("path", "simple", False), value)

    @pytest.mark.parametrize("value", [["a.b"], [1.5], {"a.b": 1}, {"a": "b.c"}])
    def test_items_that_would_be_several_are_refused(self, value: object) -> None:
        """The point between the items of a label is never encoded."""
        with pytest.raises(OpenApiRequestError, match="holds '.', which is between items there"):
            write_path_value(make_style("path", "label", True), value)

    @pytest.mark.parametrize("value", ["a/b", "../admin", "a\\b", ["x", "y/z"], {"a/b": 1}])
    def test_slashes_are_refused_unless_allowed(self, value: object) -> None:
        """Servers that decode a path before they look at it would read another one."""
        style = make_style("path", "simple", False)
        with pytest.raises(OpenApiRequestError, match=r"slash_parameters=\['color'\]"):
            write_path_value(style, value)

        assert "/" not in write_path_value(style, value, may_have_slashes=True)

    @pytest.mark.parametrize(
        "path", ["/a/../b", "/a/%2E%2e", "/a/.", "/a/%2f..%2Fb", "/a/..%5Cb", "/a/%0Ab", "/a/..;x=1/b", "/a/..%3Bx"]
    )
    def test_paths_that_lead_elsewhere_are_refused(self, path: str) -> None:
        """Parts that mean a place further up, encoded or not, and control characters."""
        with pytest.raises(OpenApiRequestError, match="A path parameter"):
            check_path(path)

    @given(st.text(min_size=1))
    def test_no_value_leaves_its_part(self, value: str) -> None:
        """Whatever a value is: it is refused, or one part of the path that is read as the value again."""
        try:
            text = write_path_value(make_style("path", "simple", False), value)
            check_path(f"/pets/{text}/toys")
        except (OpenApiRequestError, UnicodeEncodeError):
            return

        assert not set(text) & set("/?#\\ ")
        assert value == unquote(text)


class TestQueries:
    @pytest.mark.parametrize(
        ("style", "explode", "value", "expected"),
        [
            ("form", True, "blue", "color=blue"),
            ("form", True, "", "color="),
            ("form", True, COLORS, "color=blue&color=black"),
            ("form", False, COLORS, "color=blue,black"),
            ("form", True, COLOR, "R=100&G=200"),
            ("form", False, COLOR, "color=R,100,G,200"),
            ("spaceDelimited", False, COLORS, "color=blue%20black"),
            ("spaceDelimited", False, COLOR, "color=R%20100%20G%20200"),
            ("spaceDelimited", True, COLORS, "color=blue&color=black"),
            ("pipeDelimited", False, COLORS, "color=blue%7Cblack"),
            ("pipeDelimited", False, COLOR, "color=R%7C100%7CG%7C200"),
            ("deepObject", True, COLOR, "color%5BR%5D=100&color%5BG%5D=200"),
            ("deepObject", True, {"a": {"b": [1, 2]}}, "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=2"),
            ("form", True, [{"a": 1}, None, False], "color=%7B%22a%22%3A1%7D&color=&color=false"),
            ("form", True, "a&b=c#d+e", "color=a%26b%3Dc%23d%2Be"),
        ],
    )  # fmt: skip
    def test_are_written_as_the_specification_shows(
        self, style: str, explode: bool, value: object, expected: str
    ) -> None:
        """The examples of the specification, and values that it leaves open."""
        assert expected == write_query(style, explode, value)

    @pytest.mark.parametrize("place", ["query", "cookie"])
    @pytest.mark.parametrize("style", ["form", "spaceDelimited", "pipeDelimited", "deepObject"])
    @pytest.mark.parametrize("explode", [True, False])
    @pytest.mark.parametrize("value", [[], {}])
    def test_of_which_nothing_would_be_written_are_refused(
        self, place: str, style: str, explode: bool, value: object
    ) -> None:
        """To a service, an empty list is one that was not given, and may mean all items instead of none."""
        with pytest.raises(OpenApiRequestError, match="'color' is empty"):
            write_query_pairs(make_style(place, style, explode), value)

    @pytest.mark.parametrize("value", [{"a": []}, {"a": {"b": {}}}, [1, {}]])
    def test_of_which_a_part_would_not_be_written_are_refused(self, value: object) -> None:
        """The same holds for what is inside of an object in the style `deepObject`."""
        with pytest.raises(OpenApiRequestError, match="is empty"):
            write_query("deepObject", True, value)

    def test_reserved_characters_stay_where_that_is_allowed(self) -> None:
        """Those that would begin another parameter, or the fragment, are encoded all the same."""
        text = write_query("form", True, "http://a/b?c=d&e=f#g[h]+i,j%20", allow_reserved=True)

        assert "color=http://a/b?c%3Dd%26e%3Df%23g%5Bh%5D%2Bi,j%2520" == text

    def test_keys_of_objects_are_not_other_parameters(self) -> None:
        """An object that is written as pairs cannot stand for another parameter, such as an API key."""
        style = make_style("query", "form", True)
        with pytest.raises(OpenApiRequestError, match="The key 'api_key' of 'color' is the name of another parameter"):
            write_query_pairs(style, {"api_key": "mine"}, {"api_key"})

    @given(st.text(), st.sampled_from(["form", "spaceDelimited", "pipeDelimited", "deepObject"]), st.booleans())
    def test_no_value_is_more_than_one(self, value: str, style: str, allow_reserved: bool) -> None:
        """Whatever a text is, a server reads one parameter, with that text."""
        try:
            query = write_query(style, True, value, allow_reserved=allow_reserved)
        except UnicodeEncodeError:
            return

        assert [("color", value)] == parse_qsl(query, keep_blank_values=True)


class TestHeadersAndCookies:
    @pytest.mark.parametrize(
        ("explode", "value", "expected"),
        [(False, COLORS, "blue,black"), (False, COLOR, "R,100,G,200"), (True, COLOR, "R=100,G=200"), (False, 5, "5")],
    )
    def test_headers_are_simple(self, explode: bool, value: object, expected: str) -> None:
        """The examples of the specification."""
        assert expected == write_header(make_style("header", "simple", explode), value)

    @pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\0b", "é", " a", ["a\r", "b"], {"a\n": 1}])
    def test_headers_stay_in_their_line(self, value: object) -> None:
        """No value begins another header, or the body."""
        with pytest.raises(OpenApiRequestError, match="for the header 'color'"):
            write_header(make_style("header", "simple", False), value)

    def test_cookies_are_encoded(self) -> None:
        """No value begins another cookie."""
        style = make_style("cookie", "form", True)

        assert [("color", "a%3B%20admin%3D1")] == write_cookies(style, "a; admin=1")
