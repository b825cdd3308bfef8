"""Names of secrets: which keys are one, and which only look like it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from redaction_rig import (
    KEY,
    odd_secrets,
    secret_keys,
)

from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.redaction.secret_search import SecretMarkers, build_written_forms
from praval_tools.schema.secret_names import DEFAULT_SECRET_NAMES, SecretNames, is_amount


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
