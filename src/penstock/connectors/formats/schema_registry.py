"""Avro behind a schema registry of Confluent's: each message names the schema that it has.

A message is a zero byte, the id of a schema in four bytes, and the record. The registry is asked
for each id once, and for the id of a schema that is written once.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from penstock.connectors.formats.avro_rows import (
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    avro_library,
)
from penstock.connectors.web.client import HttpClient, HttpSettings, checked_hosts
from penstock.core.errors import InputError, JobExecutionError, ProgramError

_HEAD_BYTES: Final = 5
_TYPES: Final = {"Accept": "application/vnd.schemaregistry.v1+json"}
_POSTED: Final = {**_TYPES, "Content-Type": "application/vnd.schemaregistry.v1+json"}
_KNOWN: Final = ("basic.auth.user.info", "bearer.auth.token", "ssl.ca.location")


class SchemaRegistry:
    """A client of one registry; it remembers what it was told, for schemas never change.

    Args:
        url: Its address, or several with commas between them.
        configs: How to log in: `basic.auth.user.info` as `user:password`, `bearer.auth.token`, and
            `ssl.ca.location`, a file with the certificates to trust.
    """

    def __init__(self, url: str, configs: Mapping[str, str] | None = None) -> None:
        hosts = tuple(each.strip() for each in url.split(",") if each.strip())
        checked_hosts(hosts, "a schema registry")
        settings = HttpSettings(hosts)
        for name, value in (configs or {}).items():
            if name.endswith("basic.auth.user.info"):
                user, _, password = value.partition(":")
                settings = replace(settings, user_name=user, password=password)
            elif name.endswith("bearer.auth.token"):
                settings = replace(settings, headers=(("Authorization", f"Bearer {value}"),))
            elif name == "ssl.ca.location":
                settings = replace(settings, ca_file=value)
            elif not name.endswith("basic.auth.credentials.source"):
                raise ProgramError(
                    f"the setting {name!r} of a schema registry is not known; known are "
                    f"{', '.join(_KNOWN)}."
                )
        self._client = HttpClient(settings)
        self._shown = settings.shown()
        self._schemas: dict[int, Any] = {}
        self._ids: dict[str, int] = {}

    def schema(self, number: int) -> Any:
        """Returns the schema with this id, as fastavro takes it.

        Raises:
            OSError: The registry cannot be asked now.
        """
        if number not in self._schemas:
            document = self._asked("GET", f"/schemas/ids/{number}", None)
            self._schemas[number] = self._parsed(document, f"schema {number}", {})
        return self._schemas[number]

    def _parsed(self, document: Any, what: str, named: dict[str, Any]) -> Any:
        kind = document.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise InputError(f"{what} of the registry {self._shown} is {kind}, not Avro.")
        library = avro_library()
        for of in document.get("references", ()):
            path = f"/subjects/{quote(of['subject'], '')}/versions/{of['version']}"
            self._parsed(self._asked("GET", path, None), of["name"], named)
        try:
            return library.parse_schema(json.loads(document["schema"]), named)
        except (ValueError, KeyError, library.schema.SchemaParseException) as error:
            raise InputError(
                f"{what} of the registry {self._shown} is no schema of Avro: {error!r:.200}"
            ) from error

    def id_of(self, subject: str, schema: AvroSchema) -> int:
        """Returns the id of a schema under a subject; registers it if it is not known."""
        if subject not in self._ids:
            path = f"/subjects/{quote(subject, '')}/versions"
            document = self._asked("POST", path, {"schema": str(schema)})
            self._ids[subject] = int(document["id"])
        return self._ids[subject]

    def _asked(self, method: str, path: str, document: Any) -> Any:
        body = b"" if document is None else json.dumps(document).encode()
        try:
            answer = self._client.send(method, path, body, _TYPES if document is None else _POSTED)
        except InputError:
            raise
        except JobExecutionError as error:
            # What is an OSError is not taken for a message that cannot be decoded.
            raise ConnectionError(str(error)) from error
        finally:
            self._client.close()  # It is asked rarely.
        try:
            return json.loads(answer.body)
        except ValueError:
            raise InputError(
                f"{self._shown} does not answer as a schema registry does: {answer.text()}"
            ) from None


class ConfluentRegistryAvroDeserializationSchema(AvroRowDeserializationSchema):
    """Makes rows of Avro records whose schemas are in a registry; made by `for_generic`."""

    def __init__(self, schema: str, url: str, configs: Mapping[str, str] | None = None) -> None:
        super().__init__(None, schema)
        self._given = schema, url, dict(configs or {})
        self._registry = SchemaRegistry(url, configs)
        self._writers: dict[bytes, Any] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfluentRegistryAvroDeserializationSchema, self._given

    @staticmethod
    def for_generic(
        schema: AvroSchema | str, url: str, registry_configs: Mapping[str, str] | None = None
    ) -> ConfluentRegistryAvroDeserializationSchema:
        """Reads records as rows of a schema, whatever compatible schema they were written with.

        Args:
            schema: What the rows have.
            url: Address of the registry.
            registry_configs: As for `SchemaRegistry`.

        Example:
            >>> text = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}'
            >>> of = ConfluentRegistryAvroDeserializationSchema
            >>> numbers = of.for_generic(text, "http://registry:8081")
            >>> numbers.get_produced_type()
            RowTypeInfo(n: Integer)
        """
        return ConfluentRegistryAvroDeserializationSchema(str(schema), url, registry_configs)

    def decoded(self, messages: list[bytes]) -> list[dict[str, Any]]:
        read, shown, records = self._read, self._schema.parsed, []
        for message in messages:
            head = message[:_HEAD_BYTES]
            if head not in self._writers:
                self._writers[head] = self._writer(head)
            body = io.BytesIO(message)
            body.seek(_HEAD_BYTES)
            records.append(read(body, self._writers[head], shown))
        return records

    def _writer(self, head: bytes) -> Any:
        if len(head) < _HEAD_BYTES or head[0] != 0:
            raise InputError(
                f"a message begins with {head!r}, but one with a schema of a registry begins with "
                "a zero byte and four bytes of an id. Was it written by AvroRowSerializationSchema?"
            )
        return self._registry.schema(int.from_bytes(head[1:], "big"))


class ConfluentRegistryAvroSerializationSchema(AvroRowSerializationSchema):
    """Makes Avro records of rows, with the id of their schema; made by `for_generic`."""

    def __init__(
        self, subject: str, schema: str, url: str, configs: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(None, schema)
        self._given = subject, schema, url, dict(configs or {})
        self._registry = SchemaRegistry(url, configs)

    def __reduce__(self) -> tuple[Any, ...]:
        return ConfluentRegistryAvroSerializationSchema, self._given

    @staticmethod
    def for_generic(
        subject: str,
        schema: AvroSchema | str,
        url: str,
        registry_configs: Mapping[str, str] | None = None,
    ) -> ConfluentRegistryAvroSerializationSchema:
        """Writes rows with a schema, which is registered when the first row is written.

        Args:
            subject: Its name in the registry; of a topic's values `<topic>-value`.
            schema: What the rows have.
            url: Address of the registry.
            registry_configs: As for `SchemaRegistry`.

        Example:
            >>> text = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": "int"}]}'
            >>> of = ConfluentRegistryAvroSerializationSchema
            >>> numbers = of.for_generic("numbers-value", text, "http://registry:8081")
        """
        return ConfluentRegistryAvroSerializationSchema(subject, str(schema), url, registry_configs)

    def serialize_all(self, elements: list[Any]) -> list[Any]:
        encoded = super().serialize_all(elements)
        if not encoded:
            return encoded
        try:
            number = self._registry.id_of(self._given[0], self._schema)
        except ConnectionError as error:
            raise JobExecutionError(str(error)) from error
        head = b"\0" + number.to_bytes(4, "big")
        return [head + each for each in encoded]
