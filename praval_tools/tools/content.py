"""Content blocks: text, images, sounds and files that tools return besides JSON, for the formats that carry them."""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Iterable
from typing import Final, Literal, get_args

from attrs import fields, frozen

from praval_tools.misuse import explain_misuse
from praval_tools.names import format_count

ContentType = Literal["text", "image", "audio", "resource", "resource_link"]


@explain_misuse
@frozen(kw_only=True)
class Content:
    """
    One block of a result: `Content.image(png, "image/png")`; a tool returns one, or a list of them and of texts.

    A format that cannot carry it describes it in words.

    Args:
        type: What it is.
        text: Of a text, or of a resource that is one.
        data: The bytes of an image, a sound or a resource.
        mime_type: What the data are, `image/png`.
        uri: Where a resource is.
        name: What a person calls it.
    """

    type: ContentType
    text: str | None = None
    data: bytes | None = None
    mime_type: str = ""
    uri: str = ""
    name: str = ""

    def __attrs_post_init__(self) -> None:
        if self.type not in _REQUIRED_FIELDS:
            raise ValueError(f"Content of type {self.type!r}: it is one of {', '.join(_REQUIRED_FIELDS)}.")
        missing = [name for name in _REQUIRED_FIELDS[self.type] if getattr(self, name) in (None, "")]
        if self.type == "resource" and self.text is None and self.data is None:
            missing.append("text or data")
        if missing and not (self.type == "text" and self.text == ""):
            raise ValueError(f"Content of type {self.type!r} needs {', '.join(missing)}.")

    @classmethod
    def of_text(cls, text: str) -> Content:
        """Return a block of text."""
        return cls(type="text", text=text)

    @classmethod
    def image(cls, data: bytes, mime_type: str) -> Content:
        """Return an image."""
        return cls(type="image", data=data, mime_type=mime_type)

    @classmethod
    def audio(cls, data: bytes, mime_type: str) -> Content:
        """Return a sound."""
        return cls(type="audio", data=data, mime_type=mime_type)

    @classmethod
    def resource(
        cls, uri: str, *, text: str | None = None, data: bytes | None = None, mime_type: str = "", name: str = ""
    ) -> Content:
        """Return a file, or whatever else has an address, with what is in it."""
        return cls(type="resource", uri=uri, text=text, data=data, mime_type=mime_type, name=name)

    @classmethod
    def link(cls, uri: str, name: str, *, mime_type: str = "") -> Content:
        """Return the address of something that is fetched by whoever wants it."""
        return cls(type="resource_link", uri=uri, name=name, mime_type=mime_type)

    @property
    def described(self) -> str:
        """The text, or a few words that stand for what a format cannot carry."""
        if self.text is not None:
            return self.text
        if self.type == "resource_link":
            return f"[{self.name}: {self.uri}]"
        words = " ".join(filter(None, (self.mime_type or self.type, self.name or self.uri)))
        return f"[{words}, {format_count(len(self.data or b''), 'byte')}]"


_FIELD_NAMES: Final = frozenset(item.name for item in fields(Content))
_REQUIRED_FIELDS: dict[str, tuple[str, ...]] = {
    "text": ("text",), "image": ("data", "mime_type"), "audio": ("data", "mime_type"), "resource": ("uri",),
    "resource_link": ("uri", "name"),
}  # fmt: skip


def has_content(hint: object) -> bool:
    """Tell whether a type hint has `Content` in it: itself, in a union, or in a list."""
    return hint is Content or any(map(has_content, get_args(hint)))


def to_content_blocks(value: object) -> list[Content] | None:
    """
    Return a tool's value as blocks, texts among them as blocks, too; None where it is something else.

    A block may be written as JSON, as it comes back from a journal where the tool declares no `Content`.
    """
    if not isinstance(value, list | tuple):
        return None if (block := _read_block(value)) is None else [block]
    blocks: list[Content] = []
    for item in value:
        block = Content.of_text(item) if isinstance(item, str) else _read_block(item)
        if block is None:
            return None
        blocks.append(block)
    return None if all(isinstance(item, str) for item in value) else blocks


def read_content(value: object) -> object:
    """Return the block, or the list of blocks and texts, that was written as *value*; *value* where it is none."""
    blocks = to_content_blocks(value)
    if blocks is None:
        return value
    if not isinstance(value, list | tuple):
        return blocks[0]
    return [item if isinstance(item, str) else block for item, block in zip(value, blocks, strict=True)]


def _read_block(value: object) -> Content | None:
    if isinstance(value, Content):
        return value
    if type(value) is not dict or value.keys() != _FIELD_NAMES:
        return None
    data, text = value["data"], value["text"]
    if not all(isinstance(member, str) for name, member in value.items() if name not in ("data", "text")):
        return None
    if not isinstance(text, str | None) or not isinstance(data, str | None):
        return None
    try:
        return Content(**{**value, "data": None if data is None else a2b_base64(data, strict_mode=True)})
    except ValueError:
        return None


def describe_blocks(blocks: Iterable[Content]) -> str:
    """Return blocks as one text."""
    return "\n".join(block.described for block in blocks)
