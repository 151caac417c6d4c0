"""The rooms, the one direction between them, and what importing them may cost."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("audio", "codec", "pipeline", "server", "clients")
FILES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))

NETWORK = {"socket", "ssl", "http", "urllib", "websockets", "httpx", "requests", "aiohttp", "openai"}
# What a room does without, wherever in a file the import stands.
WITHOUT = {"audio": {"torch", "asyncio"} | NETWORK, "codec": {"asyncio"} | NETWORK}
# Each takes a second or more to import. Adapters are there to import them; nobody else does.
MODEL_LIBRARIES = {"torch", "transformers", "ctranslate2", "faster_whisper", "onnxruntime", "hibari"}
# (Two files of the clients are what Echoic is compared with, and drive models in their own, naive way.)
ADAPTERS = ("codec", "pipeline/backends", "server/voices", "clients/sequential.py", "clients/machine/stock.py")


def module_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_adapter(path: Path) -> bool:
    return any(path.is_relative_to(ROOT / folder) for folder in ADAPTERS)


def imports_of(path: Path) -> Iterator[str]:
    """The top-level packages that a file imports, at its top or anywhere within."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name.partition(".")[0] for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides which room it reaches into"
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_a_file_imports_only_from_its_own_room_and_rooms_to_its_left(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    to_the_right = set(ROOMS[ROOMS.index(room) + 1 :])
    assert to_the_right.isdisjoint(imports_of(path))


@pytest.mark.parametrize("room", WITHOUT)
def test_a_room_does_without_what_is_not_its_business(room: str) -> None:
    used = {name for path in FILES if path.is_relative_to(ROOT / room) for name in imports_of(path)}
    assert used.isdisjoint(WITHOUT[room])


@pytest.mark.parametrize("path", [path for path in FILES if not is_adapter(path)], ids=module_of)
def test_only_adapters_import_model_libraries(path: Path) -> None:
    assert MODEL_LIBRARIES.isdisjoint(imports_of(path))


def test_no_file_of_the_application_imports_the_tests() -> None:
    assert all("tests" not in imports_of(path) for path in FILES)


def test_every_room_holds_files() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(ROOMS)


def test_a_conversation_and_the_command_line_are_imported_without_any_model_library() -> None:
    light = [path for path in FILES if path.is_relative_to(ROOT / "pipeline") and not is_adapter(path)]
    modules = [*map(module_of, light), "clients.cli"]
    assert_imports(modules, f"set({sorted(MODEL_LIBRARIES)}).isdisjoint(sys.modules)")


def test_importing_any_file_starts_no_thread() -> None:
    assert_imports([module_of(path) for path in FILES], "threading.active_count() == 1")


def assert_imports(modules: list[str], condition: str) -> None:
    """Import the modules one by one in a fresh interpreter; the condition holds after each."""
    script = f"""
import importlib, sys, threading
for module in {modules}:
    importlib.import_module(module)
    assert {condition}, module
"""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
