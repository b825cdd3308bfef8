"""Texts, markup and charts of what happened: hostile texts stay texts."""

# Tests of: text, markup, svg, run_charts, event_text

from __future__ import annotations

import pytest

from praval_tools.report.event_text import describe_event
from praval_tools.report.markup import Markup, build_element, escape_text
from praval_tools.report.run_charts import get_outcome_class
from praval_tools.report.svg import Scale, draw_label
from praval_tools.report.text import format_arguments, format_duration, sanitize_text


class TestText:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("a\u202eb", "a\\u202eb"),
            ("\x1b[31m", "\\x1b[31m"),
            ("\ud800", "\\ud800"),
            ("bob\U000e0041\ufe01", "bob\\U000e0041\\ufe01"),
            ("a \n b", "a b"),
            (None, "None"),
        ],
    )
    def test_what_a_terminal_or_browser_would_interpret_is_spelled_out(self, text: object, expected: str) -> None:
        """Escapes, marks that turn the direction of text, halves of pairs."""
        assert expected == sanitize_text(text)

    def test_arguments_are_written_as_in_a_call(self) -> None:
        """Also where they came as JSON text; other things are written as JSON."""
        assert 'to="ann", amount=3' == format_arguments({"to": "ann", "amount": 3})
        assert "amount=3" == format_arguments('{"amount": 3}')
        assert "[1]" == format_arguments([1])

    @pytest.mark.parametrize(
        ("milliseconds", "expected"),
        [
            (None, ""),
            (0.0141, "14 µs"),
            (0.4, "0.4 ms"),
            (1.25, "1.2 ms"),
            (250, "250 ms"),
            (61_000, "1.0 min"),
            (1e7, "2.8 h"),
        ],
    )
    def test_a_duration_has_the_unit_that_suits_it(self, milliseconds: float | None, expected: str) -> None:
        """From microseconds to hours."""
        assert expected == format_duration(milliseconds)


class TestMarkup:
    def test_a_text_is_never_markup(self) -> None:
        """In elements, attributes and labels of charts; what was built here is not escaped twice."""
        hostile = '"><script>alert(1)</script>'
        for markup in (build_element("p", hostile), build_element("p", title=hostile), draw_label(0, 0, hostile)):
            assert "<script" not in markup
        assert "<p><b>x</b></p>" == build_element("p", build_element("b", "x"))
        assert "ab…" == escape_text("abcd", max_length=3)
        assert "<b>" == Markup("<b>").__html__()


class TestCharts:
    def test_a_scale_stays_inside_of_its_chart(self) -> None:
        """Values beyond its ends are drawn at them."""
        scale = Scale(0, 10, 100, 200)
        assert [100, 150, 200, 200] == [scale(value) for value in (-5, 5, 10, 99)]
        assert "good" == get_outcome_class("ok")
        assert "bad" == get_outcome_class("forbidden")
        assert "failed" == get_outcome_class("tool_error")

    def test_an_event_of_an_unknown_class_has_its_name(self) -> None:
        """A later release may write more of them."""
        assert "int" == describe_event(5).action
