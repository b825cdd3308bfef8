"""
Reads what comes from Redis before Celery's transport does, and drops what is not a message of Celery's form.

A list of Redis takes any bytes, and the transport reads them with nothing around it: one entry that it cannot read ends
the worker. https://docs.celeryq.dev/projects/kombu/en/stable/reference/kombu.transport.redis.html
"""

from __future__ import annotations

import logging
from base64 import b64decode
from typing import Final, Literal

import msgspec
from kombu.transport.redis import Channel, Transport
from kombu.utils.json import dumps, loads
from redis import Redis
from redis.client import PubSub

_logger: Final = logging.getLogger(__name__)


class SentDelivery(msgspec.Struct):
    """Where a message was sent."""

    exchange: str
    routing_key: str


class SentProperties(msgspec.Struct):
    """What the transport asks of a message."""

    delivery_tag: str
    delivery_info: SentDelivery
    body_encoding: Literal["base64"]


class SentMessage(msgspec.Struct):
    """A message as the transport writes it; what its headers and its body hold is read later."""

    body: str
    properties: SentProperties
    headers: dict[str, object]
    content_type: str = msgspec.field(name="content-type")
    content_encoding: str = msgspec.field(name="content-encoding")


def is_message(data: object) -> bool:
    """Tell whether the transport can read an entry of a list, or what was published; report what it cannot."""
    try:
        if not isinstance(data, bytes):
            raise TypeError
        content = loads(data)
        dumps([[content]])  # as it keeps what was not acknowledged: what is nested too deeply would fail there
        b64decode(msgspec.convert(content, SentMessage).body).decode()
    except Exception as error:  # isolation: nothing that Redis holds may end a worker
        _logger.error("What is not a message of Celery was thrown away (%s).", type(error).__name__)
        return False
    return True


class MessageClient(Redis):
    """A client of Redis for the transport: what is taken of a list, or was published, is a message, or nothing."""

    def parse_response(self, connection: object, command_name: object, **options: object) -> object:
        """Read an answer; of `BRPOP`, None stands for nothing within its time."""
        response: list[bytes] | None = super().parse_response(connection, command_name, **options)  # type: ignore[no-untyped-call]
        return None if command_name == "BRPOP" and response and not is_message(response[1]) else response

    def pubsub(self, **options: object) -> MessageSubscription:
        """Return a subscription of the same kind."""
        return MessageSubscription(self.connection_pool, **options)  # type: ignore[arg-type]


class MessageSubscription(PubSub):
    """What was published, as far as it is messages."""

    def parse_response(self, *args: object, **options: object) -> object:
        """Read what came; None: nothing."""
        response = super().parse_response(*args, **options)  # type: ignore[no-untyped-call]
        is_published = isinstance(response, list) and response[0] in (b"message", b"pmessage")
        return None if is_published and not is_message(response[-1]) else response


class MessageChannel(Channel):  # type: ignore[misc]  # kombu has no types
    """The transport's channel, with this client."""

    def _get_client(self) -> type[Redis]:
        super()._get_client()  # checks the version of the library
        return MessageClient


class MessageTransport(Transport):  # type: ignore[misc]  # kombu has no types
    """Celery's transport for Redis, with this channel."""

    Channel = MessageChannel
