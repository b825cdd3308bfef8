"""A pet shop made with FastAPI, whose document is the one that FastAPI generates."""

from __future__ import annotations

import gzip
from typing import Annotated, Any

from fastapi import Cookie, FastAPI, File, Form, Header, HTTPException, Query, Request, Response, UploadFile
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field


class Pet(BaseModel):
    """A pet."""

    name: str = Field(min_length=1)
    age: int | None = None
    kind: str = "cat"
    friends: list[Pet] = []


class Login(BaseModel):
    """Who comes in."""

    user: str
    rights: list[str] = []


def make_shop() -> FastAPI:
    """Return the application; `app.state.pets` holds what was added, `app.state.removed` what was removed."""
    app = FastAPI(title="Shop", version="2.1", generate_unique_id_function=lambda route: route.name)
    app.state.pets, app.state.removed = [], []
    _add_pets(app)
    _add_bodies(app)
    _add_answers(app)
    return app


def _add_pets(app: FastAPI) -> None:
    @app.get("/pets/{pet_id}", summary="Show a pet.")
    def show_pet(
        pet_id: int,
        tags: Annotated[list[str] | None, Query()] = None,
        x_trace: Annotated[str | None, Header()] = None,
        session: Annotated[str | None, Cookie()] = None,
    ) -> dict[str, Any]:
        """It need not exist."""
        return {"id": pet_id, "tags": tags, "trace": x_trace, "session": session}

    @app.post("/pets", status_code=201)
    def add_pet(pet: Pet) -> Pet:
        app.state.pets.append(pet.name)
        return pet

    @app.patch("/pets/{pet_id}")
    async def change_pet(pet_id: str, pet: dict[str, Any], request: Request) -> dict[str, Any]:
        return {"id": pet_id, "sent": await request.json()}

    @app.delete("/pets/{pet_id}", status_code=204)
    def remove_pet(pet_id: str) -> None:
        app.state.removed.append(pet_id)

    @app.get("/pets", deprecated=True)
    def find_pets(words: str, limit: Annotated[int, Query(ge=1, le=50)] = 20) -> list[str]:
        return [f"{words} {limit}"]

    @app.get("/users/{name}")
    def show_user(name: str) -> str:
        return name

    @app.get("/users/{name}/secrets", include_in_schema=False)
    def show_secrets(name: str) -> str:
        return f"secrets of {name}"


def _add_bodies(app: FastAPI) -> None:
    @app.post("/login")
    def log_in(form: Annotated[Login, Form()]) -> dict[str, Any]:
        return form.model_dump()

    @app.post("/files")
    async def upload(files: list[UploadFile], note: Annotated[str, Form()]) -> list[Any]:
        return [note, *[[file.filename, (await file.read()).decode()] for file in files]]

    @app.put("/files/{name}")
    async def replace_file(name: str, content: Annotated[bytes, File()]) -> int:
        return len(content)


def _add_answers(app: FastAPI) -> None:
    @app.get("/text", response_class=PlainTextResponse)
    def read_text() -> str:
        return "grüezi"

    @app.get("/picture")
    def draw() -> Response:
        return Response(b"\x89PNG", media_type="image/png")

    @app.get("/archive")
    def pack() -> Response:
        return Response(b"PK\0", media_type="application/zip")

    @app.head("/pets/{pet_id}")
    def measure(pet_id: int) -> Response:
        return Response(headers={"etag": f'"{pet_id}"', "set-cookie": "a=b"})

    @app.get("/fail/{status}")
    def fail(status: int) -> None:
        raise HTTPException(status, detail="no such thing", headers={"Retry-After": "3600"})

    @app.post("/fail/{status}")
    def fail_to_change(status: int) -> None:
        raise HTTPException(status, detail="it did not work")

    @app.get("/broken")
    def answer_badly() -> Response:
        return Response(b'{"a": NaN', media_type="application/json")

    @app.get("/zipped")
    def answer_zipped() -> Response:
        return Response(gzip.compress(b"x" * 1_000_000), headers={"content-encoding": "gzip"})
