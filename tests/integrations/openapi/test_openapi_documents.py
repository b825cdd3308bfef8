"""Documents: what is wrong with one is said with every place at once, and nothing of it is registered."""

# Tests of: loading, nodes, shapes, operations, servers, addresses

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("httpx")

from openapi_rig import make_body, make_document, make_operation, make_parameter, to_json

from praval_tools import ToolRegistry, ToolUsageError
from praval_tools.integrations.openapi import OpenApiDocumentError
from praval_tools.integrations.openapi.addresses import get_origin, is_below, is_same_service

SERVER = "http://127.0.0.1:9"


@pytest.fixture
def registry() -> Iterator[ToolRegistry]:
    """A registry."""
    with ToolRegistry() as registry:
        yield registry


def find_problems(spec: Any, **options: Any) -> list[str]:
    """Return what is wrong with a document; nothing of it is registered."""
    with ToolRegistry() as registry:
        with pytest.raises(OpenApiDocumentError) as caught:
            registry.register_openapi(spec, namespace="x", **options)
        assert [] == registry.list_all_tools()
        assert "x" not in registry.register_openapi(make_document({}), namespace="x").tools
    return [str(problem) for problem in caught.value.problems]


def register(registry: ToolRegistry, paths: dict[str, Any], **options: Any) -> Any:
    """Register a document with *paths*."""
    members = options.pop("members", {})
    return registry.register_openapi(make_document(paths, server=SERVER, **members), namespace="x", **options)


WRONG = {
    "/pets/{id}": {
        "parameters": [make_parameter("shared", schema={"type": "strnig"})],
        "get": make_operation("get", responses={"OK": {}}),
        "put": make_operation("same", make_parameter("id", "path"), make_parameter("other", "path")),
        "post": make_operation("same", make_parameter("id", "path"), {"name": "a", "in": "body", "schema": {}}),
        "delete": make_operation("delete", {"$ref": "#/components/parameters/Missing"}, make_parameter("id", "path")),
        "patch": make_operation("patch", {"name": "id", "in": "path", "schema": {}}, requestBody={"content": {}}),
    },
    "/a": {
        "get": make_operation("a", make_parameter("q"), make_parameter("q")),
        "put": make_operation("b", {"name": "q", "in": "query"}, {"name": "r", "in": "query", "style": "simple"}),
        "post": make_operation("c", requestBody={"$ref": "#/components/requestBodies/Circle"}),
        "patch": make_operation("d", security=[{"Nothing": []}], deprecated="yes"),
        "delete": make_operation("e", servers=[{"url": "http://{host}/"}]),
        "head": "nothing",
    },
    "pets": {},
}


class TestWrongDocuments:
    def test_every_place_is_said_at_once(self) -> None:
        """One error lists all that is wrong, each with its JSON pointer."""
        components = {"requestBodies": {"Circle": {"$ref": "#/components/requestBodies/Circle"}}}
        problems = find_problems(make_document(WRONG, server=SERVER, components=components))

        pets = "#/paths/~1pets~1{id}"
        for place, text in [
            ("#/paths", "expected a path that begins with /"),
            (f"{pets}/parameters/0/schema/type", "is not a valid schema"),
            (f"{pets}/get/responses", "expected a status"),
            (f"{pets}/put", "there is the path parameter 'other', and the path has no {other}"),
            (f"{pets}/post", "the operationId 'same' is that of PUT /pets/{id}, too"),
            (f"{pets}/post/parameters/1/in", 'parameter: "body" is not one of'),
            (f"{pets}/delete/parameters/0/$ref", "'#/components/parameters/Missing' leads to nothing"),
            (f"{pets}/patch/parameters/0", "a path parameter has required: true"),
            (f"{pets}/patch/requestBody/content", "has less than 1 propert"),
            ("#/paths/~1a/get/parameters/1", "the query parameter 'q' stands here twice"),
            ("#/paths/~1a/put/parameters/0", "expected either schema or content"),
            ("#/paths/~1a/put/parameters/1/style", '"simple" is not one of'),
            ("#/components/requestBodies/Circle", "the reference leads back to itself"),
            ("#/paths/~1a/patch/deprecated", 'operation: "yes" is not of type "boolean"'),
            ("#/paths/~1a/delete/servers/0", "the variable 'host' of the server is not among its variables"),
            ("#/paths/~1a/head", "is not of type"),
        ]:
            assert any(line.startswith(f"{place}: ") and text in line for line in problems), (place, text, problems)
        assert len(problems) == len(set(problems))

    def test_the_error_says_all(self) -> None:
        """Its text has a line for each problem, and names the document."""
        with ToolRegistry() as registry, pytest.raises(OpenApiDocumentError) as caught:
            registry.register_openapi(make_document({"a": {}}), namespace="x")

        assert str(caught.value).startswith(
            "OpenAPI document 'x' cannot be used (1 problem):\n#/paths: expected a path"
        )

    def test_what_is_not_taken_may_be_wrong(self, registry: ToolRegistry) -> None:
        """Operations that are left out by the operator are not looked at."""
        paths = {"/a": {"get": make_operation("good"), "put": make_operation("bad", {"$ref": "#/nowhere"})}}

        assert ["x-good"] == register(registry, paths, exclude=["bad"]).tools

    @pytest.mark.parametrize(
        ("root", "problem"),
        [
            ([], "#: expected an object"),
            ({}, "#: missing: openapi"),
            ({"swagger": "2.0"}, "#/swagger: this is a Swagger 2.0 document; convert it to OpenAPI 3"),
            ({"openapi": "4.0.0"}, "#/openapi: '4.0.0' is unknown; known are 3.0 and 3.1"),
            ({"openapi": "3.1.0"}, '#: document: "info" is a required property'),
            ({"openapi": "3.0.0", "info": {"title": 1, "version": "1"}}, "#/info/title: document: 1 is not of type"),
        ],
    )
    def test_roots(self, root: Any, problem: str, tmp_path: Path) -> None:
        """What is not a document of a version that is known, and how to get one."""
        file = tmp_path / "api.json"
        file.write_text(json.dumps(root))

        assert find_problems(file)[0].startswith(problem)

    def test_operations_that_cannot_be_tools_are_left_out(self, registry: ToolRegistry) -> None:
        """They are problems of the source, with their places; all others are tools."""
        paths = {
            "/a": {
                "get": make_operation("good"),
                "put": make_operation("bad-header", make_parameter("Host", "header")),
                "post": make_operation("text", make_parameter("q", content={"text/plain": {}})),
                "patch": make_operation("GOOD"),
                "delete": make_operation("far", servers=[{"url": "http://example.com"}]),
            }
        }
        source = register(registry, paths, include=["*", "missing"])
        messages = [problem.message for problem in source.list_problems()]

        assert ["x-good"] == source.tools
        for place, text in [
            ("put/parameters/0", "a caller cannot give the header 'Host'; the operation is left out."),
            ("post/parameters/0/content/text~1plain", "a parameter of the type 'text/plain' is not supported"),
            ("patch", "its name 'x-GOOD' is that of 'good' but for case"),
            ("delete/servers/0", "the server http://example.com:80 is another one than http://127.0.0.1:9"),
        ]:
            assert any(f"#/paths/~1a/{place}: {text}" in message for message in messages), (place, messages)
        assert "Operation 'missing' is to be included, and is not there." in messages[-1]


class TestNames:
    def test_are_ids_or_methods_and_paths(self, registry: ToolRegistry) -> None:
        """Without an id the method and the path are the name; other characters become `_`."""
        nameless = {key: value for key, value in make_operation("").items() if key != "operationId"}
        paths = {
            "/pets/{id}": {"parameters": [make_parameter("id", "path")], "get": nameless},
            "/repos": {"get": make_operation("repos/list-for-org")},
        }

        assert ["x-GET_pets_id", "x-repos_list-for-org"] == register(registry, paths).tools

    def test_long_ones_are_shortened(self, registry: ToolRegistry) -> None:
        """A name that is too long ends in a short hash, so that two of them differ."""
        paths = {"/a": {"get": make_operation("a" * 200), "put": make_operation("a" * 201)}}
        names = register(registry, paths).tools

        assert [128, 128] == [len(name) for name in names]
        assert 2 == len(set(names))

    def test_may_be_given(self, registry: ToolRegistry) -> None:
        """`names=` takes ids, and methods with paths."""
        paths = {"/a": {"get": make_operation("one"), "put": make_operation("two")}}

        assert ["x-first", "x-second"] == register(registry, paths, names={"one": "first", "PUT /a": "second"}).tools

    def test_select(self, registry: ToolRegistry) -> None:
        """`include=` and `exclude=` take ids, methods with paths, and `*`."""
        paths = {
            "/pets": {"get": make_operation("pets/list"), "put": make_operation("pets/set")},
            "/a[b]": {"get": make_operation("other"), "put": make_operation("more")},
        }
        source = register(registry, paths, include=["pets/*", "GET /a[b]"], exclude="* /pets")
        assert ["x-other"] == source.tools
        source.close()

        assert ["x-pets_list", "x-more"] == register(registry, paths, include=["GET /pets", "more"]).tools

    def test_the_namespace_is_the_operators(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """It is made of the file's name, or of `base_url=`, never of the document's words."""
        file = tmp_path / "PetStore v2.json"
        file.write_bytes(to_json(make_document({}, server=SERVER)))

        assert "pet_store_v2" == registry.register_openapi(file).name
        assert "127_0_0_1" == registry.register_openapi(str(file), base_url=f"{SERVER}/v1").name[1:]
        assert "openapi" == registry.register_openapi(make_document({}, server=SERVER)).name

    def test_are_taken_once(self, registry: ToolRegistry) -> None:
        """A namespace that is taken is refused; a tool that has the name stays, and the operation is left out."""

        @registry.tool("x-a")
        def own() -> int:
            """Stay."""
            return 1

        source = register(registry, {"/a": {"get": make_operation("a"), "put": make_operation("b")}})
        with pytest.raises(ToolUsageError, match="'x' is registered already"):
            register(registry, {})

        assert ["x-b"] == source.tools
        assert "already registered" in source.list_problems()[0].message


class TestFiles:
    def test_yaml_is_read_as_1_2(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """Keys that are numbers, words of old versions, and values that several places share."""
        file = tmp_path / "api.yaml"
        file.write_text(
            "openapi: 3.0.3\ninfo: {title: T, version: '1'}\nservers: [{url: http://127.0.0.1:9}]\n"
            "paths:\n  /a:\n    get: &get\n      operationId: a\n      parameters:\n"
            "      - {name: land, in: query, schema: {type: string, enum: [NO, YES, on]}}\n"
            "      - {name: n, in: query, schema: {type: integer, maximum: 0o17, minimum: 010}}\n"
            "      responses:\n        200: {description: ok}\n"
            "  /b:\n    post:\n      responses: &r {200: {description: ok}}\n    put: {responses: *r}\n"
        )
        source = registry.register_openapi(file)
        properties = registry.get_tool("api-a").parameters["properties"]  # type: ignore[union-attr]

        assert ["api-a", "api-PUT_b", "api-POST_b"] == source.tools
        assert ["NO", "YES", "on"] == properties["land"]["enum"]
        assert (15, 10) == (properties["n"]["maximum"], properties["n"]["minimum"])

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            (b"openapi: [", "is not valid YAML"),
            (b"a: !!python/object:os.system 1", "line 1 has a tag"),
            (b"a: 1\na: 2", "line 2 stands twice"),
            (b"a: &x [*x]", "line 1 is an alias of a value that is not complete before it"),
            (b"<<: {a: 1}", "line 1 merges another mapping"),
            (b"\xff", "it is not UTF-8"),
            (b'{"a": 1, "a": 2}', "has the key 'a' twice in one object"),
            (b'{"a": ' * 300 + b"1" + b"}" * 300, "levels deep"),
            (b"[" * 100_000, "nested"),
            (b"- " * 100_000, "nested"),
            (b"just text", "expected an object"),
        ],
    )
    def test_what_cannot_be_read(self, text: bytes, problem: str, tmp_path: Path) -> None:
        """Texts that are not documents, or that mean harm."""
        file = tmp_path / "api.yaml"
        file.write_bytes(text)

        assert problem in find_problems(file)[0]

    def test_a_small_text_cannot_become_a_large_one(self, tmp_path: Path) -> None:
        """Aliases of aliases are counted, and their values are not."""
        lines = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
        lines += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
        file = tmp_path / "api.yaml"
        file.write_text("\n".join(lines))

        assert "is an alias by which the text has more than 2,000,000 values" in find_problems(file)[0]

    def test_files_are_bounded(self, tmp_path: Path) -> None:
        """A file that is too long, a folder, and none."""
        file = tmp_path / "api.json"
        file.write_bytes(to_json(make_document({})))

        assert "it is longer than 10 bytes" in find_problems(file, max_document_bytes=10)[0]
        assert "it is not a regular file" in find_problems(tmp_path)[0]
        assert "it cannot be read: No such file" in find_problems(tmp_path / "none")[0]

    @pytest.mark.parametrize(
        "spec",
        ["file:///a", "ftp://a/b", "http://", "http://a@b/c", "http://a/b c", '{"openapi": "3.1.0"}', 5, b"x", ""],
    )
    def test_other_things_are_refused(self, registry: ToolRegistry, spec: Any) -> None:
        """What is neither mapping nor path nor URL of the web; also the text of a document."""
        with pytest.raises(ToolUsageError):
            registry.register_openapi(spec)


class TestReferences:
    def test_other_files_are_read_where_that_is_allowed(self, registry: ToolRegistry, tmp_path: Path) -> None:
        """References lead to documents below `allow_references=`, and from there on."""
        (tmp_path / "parts").mkdir()
        main, parts = tmp_path / "api.json", tmp_path / "parts" / "pets.json"
        replace = make_operation("b", requestBody=make_body({"$ref": "more.json#/Pet"}))
        pets = {"get": make_operation("a", {"$ref": "more.json#/q"}), "put": replace}
        parts.write_bytes(to_json({"item": pets}))
        schema = {"type": "object", "properties": {"next": {"$ref": "#/Pet"}}}
        (tmp_path / "parts" / "more.json").write_bytes(to_json({"q": make_parameter("q"), "Pet": schema}))
        main.write_bytes(to_json(make_document({"/a": {"$ref": "parts/pets.json#/item"}}, server=SERVER)))
        fix = "#/paths/~1a/$ref: 'parts/pets.json#/item' leads to another document; pass allow_references="

        assert find_problems(main)[0].startswith(fix)
        source = registry.register_openapi(main, namespace="x", allow_references=str(tmp_path / "parts"))
        assert ["x-a", "x-b"] == source.tools
        body = registry.get_tool("x-b").parameters  # type: ignore[union-attr]
        assert {"Pet": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Pet"}}}} == body["$defs"]

    @pytest.mark.parametrize(
        "reference", ["../secret.json", "file:///etc/passwd", "/etc/passwd", "http://127.0.0.1:9/x"]
    )
    def test_no_other_place_is_read(self, reference: str, tmp_path: Path) -> None:
        """References that lead out of what is allowed are problems, with their places."""
        (tmp_path / "in").mkdir()
        (tmp_path / "secret.json").write_text("{}")
        (tmp_path / "in" / "link").symlink_to(tmp_path)
        for target in (reference, f"link/{reference}"):
            main = tmp_path / "in" / "api.json"
            main.write_bytes(to_json(make_document({"/a": {"$ref": target}}, server=SERVER)))

            assert find_problems(main, allow_references=str(tmp_path / "in"))[0].startswith("#/paths/~1a/$ref: ")


class TestServers:
    @pytest.mark.parametrize(
        ("servers", "url"),
        [
            ([{"url": "https://a.example/v1/"}, {"url": "https://b.example"}], "https://a.example/v1/x"),
            ([{"url": "https://{who}.example:{port}/{v}", "variables": {
                "who": {"default": "a"}, "port": {"default": "8443", "enum": ["8443"]}, "v": {"default": "v2"}}}],
             "https://a.example:8443/v2/x"),
        ],
    )  # fmt: skip
    def test_the_first_counts(self, registry: ToolRegistry, servers: Any, url: str) -> None:
        """With the defaults of its variables."""
        document = make_document({"/x": {"get": make_operation("op")}}, version="3.0.0", servers=servers)
        registry.register_openapi(document, namespace="x")
        extra = registry.get_tool("x-op").metadata.extra  # type: ignore[union-attr]

        assert f"GET {url}" == extra["openapi"]["request"]

    @pytest.mark.parametrize(
        ("server", "problem"),
        [
            ({"url": "/v1"}, "is relative, and the document is from no URL; pass base_url="),
            ({"url": "file:///etc"}, "is relative"),
            ({"url": "https://user:word@a.example"}, "holds a user or a password"),
            ({"url": "https://a.example/?x=1"}, "holds a query or a fragment"),
            ({"url": "https://"}, "is not an http:// or https:// URL with a host"),
            ({"url": "https://a:b/"}, "is not a URL"),
            ({"url": "https://{a}", "variables": {"a": {"default": "x", "enum": ["y"]}}}, "is none of its enum"),
            ({}, '"url" is a required property'),
        ],
    )
    def test_wrong_ones(self, server: Any, problem: str) -> None:
        """URLs to which nothing can be sent."""
        document = make_document({"/x": {"get": make_operation("op")}}, servers=[server])

        assert problem in find_problems(document)[0]

    def test_other_servers_are_the_operators_to_allow(self, registry: ToolRegistry) -> None:
        """An operation with another server is taken where `allow_servers=` has it."""
        paths = {
            "/a": {"get": make_operation("a"), "put": make_operation("b", servers=[{"url": "https://b.example/v1"}])}
        }
        source = register(registry, paths, allow_servers=["https://b.example"])

        assert ["x-a", "x-b"] == source.tools

    def test_origins(self) -> None:
        """Scheme, host and port are what is compared; https may take the place of http."""
        assert "https://a.b:443" == get_origin("https://A.b./x?y")
        assert "http://[::1]:80" == get_origin("http://[::1]")
        assert is_same_service("https://a/", "http://a:80") and not is_same_service("http://a/", "https://a:443")
        assert not is_same_service("http://a:81/", "http://a:80")
        assert is_below("http://a/b/c", "http://a/b") and not is_below("http://a/bc", "http://a/b")
        assert not is_below("http://a/b", "/a") and not is_below("/a/b", "http://a")
