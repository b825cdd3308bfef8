"""The table of types: every hint that has a JSON form, row by row."""

from __future__ import annotations

from typing import Any, Final

from praval_tools.schema.containers import CONTAINERS
from praval_tools.schema.data_classes import CLASSES
from praval_tools.schema.scalars import SCALARS
from praval_tools.schema.text_formats import TEXTS
from praval_tools.schema.type_handler import Form, no_hint
from praval_tools.schema.type_lookup import takes_of
from praval_tools.schema.wrappers import ALIAS, TRANSPARENT, UNION, annotated_form

_WRAPPERS: Final = (UNION, annotated_form(takes_of), TRANSPARENT, ALIAS)
FORMS: Final[tuple[Form, ...]] = (*SCALARS, *TEXTS, *CONTAINERS, *_WRAPPERS, *CLASSES)
"""Every row. Where two would fit, the first counts."""

BY_TYPE: Final[dict[Any, Form]] = {kind: form for form in reversed(FORMS) for kind in form.types}
BY_TEST: Final = tuple(form for form in FORMS if form.fits is not no_hint)
