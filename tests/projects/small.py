"""Small projects of our own around real test runners, for layouts that published packages do not have."""

from __future__ import annotations

import json

from tests.projects.project import (
    DATE,
    PYTEST,
    Bug,
    Project,
    package_json,
    pip_venv,
    uv_venv,
)

_PYTHON = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/test_calc.py": "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
}
_PYTHON_BUG = Bug("calc.py", "a + b", "a - b")
_OUTSIDE = uv_venv("../venv", PYTEST)


def _member(name: str, *dependencies: str) -> str:
    """Return the pyproject.toml of a member of a uv workspace."""
    return (
        f'[project]\nname = "{name}"\nversion = "1"\nrequires-python = ">=3.11"\n'
        f"dependencies = {json.dumps(dependencies)}\n\n"
        '[build-system]\nrequires = ["hatchling==1.27.0"]\nbuild-backend = "hatchling.build"\n'
    )


_NODE_BUG = Bug("src/calc.js", "a + b", "a - b")


_JEST = (
    'const { add } = require("../src/calc");\n'
    'test("add", () => {\n  expect(add(1, 2)).toBe(3);\n});\n'
    'test("snapshot", () => {\n  expect({ sum: add(2, 2) }).toMatchSnapshot();\n});\n'
)
_SNAPSHOT = """\
// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing

exports[`snapshot 1`] = `
{
  "sum": 4,
}
`;
"""
_ASSERT = (
    'const assert = require("node:assert");\nconst { add } = require("../src/calc");\n'
)
_CALC_JS = "exports.add = (a, b) => a + b;\n"

_MAKEFILE = """\
CFLAGS = -Wall

test: build/test
	./build/test

build/test: build/calc.o build/test.o
	$(CC) -o $@ $^

build/%.o: src/%.c src/calc.h
	mkdir -p build
	$(CC) $(CFLAGS) -c -o $@ $<

build/test.o: tests/test.c src/calc.h
	mkdir -p build
	$(CC) $(CFLAGS) -Isrc -c -o $@ $<
"""

_SETTINGS = """\
SECRET_KEY = "for tests"
INSTALLED_APPS = ["shop"]
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3", "TEST": {"NAME": "test.sqlite3"}}}
ROOT_URLCONF = "shop.urls"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
"""
_MANAGE = """\
import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
execute_from_command_line(sys.argv)
"""
_DJANGO_TESTS = """\
from django.test import TestCase

from shop.models import Item


class ItemTest(TestCase):
    def test_gross(self):
        item = Item.objects.create(name="tea", net=100)
        self.assertEqual(Item.objects.get(pk=item.pk).gross(), 119)

    def test_page(self):
        Item.objects.create(name="tea", net=100)
        self.assertContains(self.client.get("/"), "tea 119")
"""

_SOCKET_TESTS = """\
import socket
import threading

from server import answer


def test_socket_in_the_project():
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("run/test.sock")
    listener.listen()
    thread = threading.Thread(target=answer, args=(listener,))
    thread.start()
    client = socket.socket(socket.AF_UNIX)
    client.connect("run/test.sock")
    client.sendall(b"abc")
    assert client.recv(10) == b"cba"
    thread.join()
"""

SMALL = (
    Project(
        "django",
        "manage.py test, .venv by pip, sqlite file",
        "python manage.py test",
        Bug("shop/models.py", "* 119", "* 120"),
        files={
            "manage.py": _MANAGE,
            "site_settings.py": _SETTINGS,
            "shop/__init__.py": "",
            "shop/models.py": (
                "from django.db import models\n\n\nclass Item(models.Model):\n"
                "    name = models.CharField(max_length=20)\n    net = models.IntegerField()\n\n"
                "    def gross(self):\n        return self.net * 119 // 100\n"
            ),
            "shop/urls.py": (
                "from django.http import HttpResponse\nfrom django.urls import path\n\nfrom shop.models import Item\n\n"
                "\ndef page(request):\n"
                '    return HttpResponse(" ".join(f"{item.name} {item.gross()}" for item in Item.objects.all()))\n\n\n'
                'urlpatterns = [path("", page)]\n'
            ),
            "shop/tests.py": _DJANGO_TESTS,
        },
        ignore="*.sqlite3\n",
        setup=(
            *pip_venv(".venv", "django==5.2.19"),
            ".venv/bin/python manage.py migrate --run-syncdb",
        ),
        path=".venv/bin",
        tests="**/tests.py",
        editable="shop/models.py",
    ),
    Project(
        "jest",
        "jest with a committed snapshot, npm test",
        "npm test",
        _NODE_BUG,
        files={
            "package.json": package_json("jest", devDependencies='{"jest": "29.6.3"}'),
            "src/calc.js": _CALC_JS,
            "tests/calc.test.js": _JEST,
            "tests/__snapshots__/calc.test.js.snap": _SNAPSHOT,
        },
        setup=("npm install",),
    ),
    Project(
        "vitest",
        "vitest, ES modules, npx vitest run",
        "npx vitest run",
        _NODE_BUG,
        files={
            "package.json": package_json(
                "vitest run", type='"module"', devDependencies='{"vitest": "3.0.1"}'
            ),
            "src/calc.js": "export const add = (a, b) => a + b;\n",
            "tests/calc.test.js": (
                'import { expect, test } from "vitest";\nimport { add } from "../src/calc.js";\n\n'
                'test("add", () => {\n  expect(add(1, 2)).toBe(3);\n});\n'
            ),
        },
        setup=("npm install",),
    ),
    Project(
        "mocha",
        "mocha under nyc, which writes .nyc_output and coverage, not ignored",
        "npm test",
        _NODE_BUG,
        files={
            "package.json": package_json(
                "nyc --reporter=lcov mocha",
                devDependencies='{"mocha": "11.8.0", "nyc": "17.1.0"}',
            ),
            "src/calc.js": _CALC_JS,
            "test/calc.js": _ASSERT
            + 'describe("add", () => it("adds", () => assert.equal(add(1, 2), 3)));\n',
        },
        setup=("npm install",),
        tests="test/**",
    ),
    Project(
        "node-test",
        "node --test, no dependencies",
        "npm test",
        _NODE_BUG,
        files={
            "package.json": package_json("node --test test/"),
            "src/calc.js": _CALC_JS,
            "test/calc.test.js": _ASSERT
            + 'require("node:test")("add", () => assert.equal(add(1, 2), 3));\n',
        },
        setup=("node --version",),
        tests="test/**",
        smoke=True,
    ),
    Project(
        "typescript",
        "tsc into an ignored dist, then node --test",
        "npm test",
        Bug("src/calc.ts", "a + b", "a - b"),
        files={
            "package.json": package_json(
                "tsc && node --test dist/tests",
                devDependencies='{"typescript": "5.9.3"}',
            ),
            "tsconfig.json": (
                '{"compilerOptions": {"outDir": "dist", "rootDir": ".", "module": "commonjs", "target": "es2022",'
                ' "strict": true, "esModuleInterop": true, "incremental": true}, "include": ["src", "tests"]}\n'
            ),
            "src/calc.ts": "export const add = (a: number, b: number): number => a + b;\n",
            "src/node.d.ts": 'declare module "node:test";\ndeclare module "node:assert";\n',
            "tests/calc.test.ts": (
                'import test from "node:test";\nimport assert from "node:assert";\nimport { add } from "../src/calc";\n\n'
                'test("add", () => assert.equal(add(1, 2), 3));\n'
            ),
        },
        setup=("npm install", "npx tsc"),
    ),
    Project(
        "npm-workspaces",
        "npm workspaces: node_modules links to packages of the repository",
        "npm test --workspaces --if-present",
        Bug("packages/calc/index.js", "a + b", "a - b"),
        files={
            "package.json": package_json(
                "npm test --workspaces", workspaces='["packages/*"]'
            ),
            "packages/calc/package.json": '{"name": "@own/calc", "version": "1.0.0", "main": "index.js"}\n',
            "packages/calc/index.js": _CALC_JS,
            "packages/app/package.json": (
                '{"name": "@own/app", "version": "1.0.0", "scripts": {"test": "node --test test/"},'
                ' "dependencies": {"@own/calc": "1.0.0"}}\n'
            ),
            "packages/app/test/app.test.js": (
                'const assert = require("node:assert");\nconst { add } = require("@own/calc");\n'
                'require("node:test")("add", () => assert.equal(add(1, 2), 3));\n'
            ),
        },
        setup=("npm install",),
        tests="packages/*/test/**",
        editable="packages/*/index.js",
    ),
    Project(
        "go",
        "go test ./...",
        "go test ./...",
        Bug("calc/calc.go", "a + b", "a - b"),
        files={
            "go.mod": "module example.org/own\n\ngo 1.21\n",
            "calc/calc.go": "package calc\n\n// Add adds.\nfunc Add(a, b int) int { return a + b }\n",
            "calc/calc_test.go": (
                'package calc\n\nimport "testing"\n\nfunc TestAdd(t *testing.T) {\n'
                '\tif Add(1, 2) != 3 {\n\t\tt.Fatal("wrong")\n\t}\n}\n'
            ),
        },
        setup=("go build ./...",),
        tools=("go",),
        tests="**/*_test.go",
        editable="calc/calc.go",
    ),
    Project(
        "rust",
        "cargo test, an ignored target",
        "cargo test -q",
        Bug("src/lib.rs", "a + b", "a - b"),
        files={
            "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n',
            "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
            "src/lib.rs": "pub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n",
            "tests/add.rs": "#[test]\nfn adds() {\n    assert_eq!(calc::add(1, 2), 3);\n}\n",
        },
        setup=("cargo build -q --offline",),
    ),
    Project(
        "make",
        "C, make test, an ignored build folder with old objects",
        "make test",
        Bug("src/calc.c", "a + b", "a - b"),
        files={
            "Makefile": _MAKEFILE,
            "src/calc.h": "int add(int a, int b);\n",
            "src/calc.c": '#include "calc.h"\n\nint add(int a, int b) { return a + b; }\n',
            "tests/test.c": '#include "calc.h"\n\nint main(void) { return add(1, 2) == 3 ? 0 : 1; }\n',
        },
        setup=("make build/test",),
        smoke=True,
    ),
    Project(
        "dotenv",
        "tests need an ignored .env, ignored fixtures and an empty folder",
        "pytest -q",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "tests/test_data.py": (
                "from pathlib import Path\n\nfrom calc import add\n\n\ndef test_fixture():\n"
                '    assert "TOKEN=" in Path(".env").read_text()\n    assert Path("spool").is_dir()\n'
                '    numbers = map(int, Path("tests/data/big.csv").read_text().split(","))\n'
                "    assert add(*numbers) == 42\n"
            ),
        },
        ignore=".env\ntests/data/\n",
        setup=(
            *_OUTSIDE,
            "echo TOKEN=1 > .env",
            "mkdir -p tests/data spool",
            "echo 20,22 > tests/data/big.csv",
        ),
        path="../venv/bin",
        editable="calc.py",
        smoke=True,
    ),
    Project(
        "git-tags",
        "a test reads git describe and the log",
        "pytest -q",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "tests/test_version.py": (
                "import subprocess\n\n\ndef test_version():\n"
                '    told = subprocess.run(["git", "describe", "--tags"], capture_output=True, text=True, check=True)\n'
                '    assert told.stdout.startswith("v1.2.0")\n'
            ),
        },
        setup=(*_OUTSIDE, "git tag v1.2.0", "git commit -q --allow-empty -m More"),
        path="../venv/bin",
        editable="calc.py",
        smoke=True,
    ),
    Project(
        "submodule",
        "the code imports a submodule",
        "pytest -q",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "calc.py": "from vendor.numbers_of import number\n\n\ndef add(a, b):\n    return number(a + b)\n",
            "vendor/numbers_of.py": "def number(text):\n    return int(text)\n",
        },
        setup=_OUTSIDE,
        path="../venv/bin",
        editable="calc.py",
        repository="submodule",
    ),
    Project(
        "worktree",
        "a worktree of a repository beside it, .venv activated",
        "pytest -q",
        _PYTHON_BUG,
        files=_PYTHON,
        setup=uv_venv(".venv", PYTEST),
        path=".venv/bin",
        editable="calc.py",
        repository="worktree",
        smoke=True,
    ),
    Project(
        "uv-workspace",
        "a uv workspace: the package under test imports another member, both editable in .venv",
        "uv run --frozen --package app pytest -q packages/app",
        Bug("packages/calc/src/calc/__init__.py", "a + b", "a - b"),
        files={
            "pyproject.toml": (
                '[project]\nname = "own"\nversion = "1"\nrequires-python = ">=3.11"\n\n'
                '[tool.uv.workspace]\nmembers = ["packages/*"]\n'
            ),
            "packages/calc/pyproject.toml": _member("calc"),
            "packages/calc/src/calc/__init__.py": "def add(a, b):\n    return a + b\n",
            "packages/app/pyproject.toml": (
                _member("app", "calc", PYTEST)
                + "\n[tool.uv.sources]\ncalc = { workspace = true }\n"
            ),
            "packages/app/src/app/__init__.py": "from calc import add\n\nTWO = add(1, 1)\n",
            "packages/app/tests/test_app.py": (
                "from app import TWO\n\n\ndef test_two():\n    assert TWO == 2\n"
            ),
        },
        setup=(f"uv sync -q --all-packages --exclude-newer {DATE}",),
        ignore="uv.lock\n",
        tests="packages/*/tests/**",
        editable="packages/*/src/**",
    ),
    Project(
        "no-git",
        "no repository, .venv/bin/python -m pytest",
        ".venv/bin/python -m pytest -q",
        _PYTHON_BUG,
        files=_PYTHON,
        setup=uv_venv(".venv", PYTEST),
        editable="calc.py",
        repository="none",
        smoke=True,
    ),
    Project(
        "dirty",
        "modified, staged, deleted and untracked files before the run",
        "pytest -q",
        _PYTHON_BUG,
        files={**_PYTHON, "notes.txt": "1\n", "old.txt": "1\n", "staged.txt": "1\n"},
        setup=(
            *_OUTSIDE,
            "echo 2 >> notes.txt && rm old.txt && echo 2 >> staged.txt && git add staged.txt && echo 3 >> staged.txt",
            "printf 'from calc import add\\n\\n\\ndef test_more():\\n    assert add(2, 2) == 4\\n' > tests/test_more.py",
        ),
        path="../venv/bin",
        editable="calc.py",
    ),
    Project(
        "reports",
        "the suite writes coverage.xml, report.xml and a database, not ignored",
        "pytest -q --junitxml=report.xml --cov=calc --cov-report=xml",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "tests/test_db.py": (
                "import sqlite3\n\nfrom calc import add\n\n\ndef test_db():\n"
                '    with sqlite3.connect("test.db") as db:\n        db.execute("create table if not exists t (x)")\n'
                '        db.execute("insert into t values (?)", (add(1, 1),))\n'
                '        assert db.execute("select max(x) from t").fetchone() == (2,)\n'
            ),
        },
        setup=uv_venv(".venv", PYTEST, "pytest-cov==7.0.0"),
        path=".venv/bin",
        editable="calc.py",
    ),
    Project(
        "tee",
        "the validator writes its log into the workspace: pytest | tee",
        "set -e; pytest -q > test.log || { cat test.log; exit 1; }; tee last.log < test.log",
        _PYTHON_BUG,
        files=_PYTHON,
        setup=_OUTSIDE,
        path="../venv/bin",
        editable="calc.py",
    ),
    Project(
        "unix-sockets",
        "a test binds a Unix socket in the workspace",
        "pytest -q",
        Bug("server.py", "[::-1]", "[::+1]"),
        files={
            "server.py": (
                "def answer(listener):\n    connection, _ = listener.accept()\n"
                "    connection.sendall(connection.recv(10)[::-1])\n"
            ),
            "run/.gitignore": "*.sock\n",
            "tests/test_server.py": _SOCKET_TESTS,
            "tests/conftest.py": (
                "import pathlib\n\nimport pytest\n\n\n@pytest.fixture(autouse=True)\ndef clean():\n"
                '    pathlib.Path("run/test.sock").unlink(missing_ok=True)\n'
            ),
            "pyproject.toml": _PYTHON["pyproject.toml"],
        },
        setup=_OUTSIDE,
        path="../venv/bin",
        editable="server.py",
    ),
    Project(
        "strange-path",
        "a workspace path with spaces, a colon, a comma and an apostrophe",
        "pytest -q",
        _PYTHON_BUG,
        files=_PYTHON,
        setup=_OUTSIDE,
        path="../venv/bin",
        editable="calc.py",
        folder="Anna's project: one, two",
        smoke=True,
    ),
    Project(
        "monorepo",
        "the workspace is a folder of a larger repository, whose tests read a file above it",
        "pytest -q",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "tests/test_above.py": (
                "from pathlib import Path\n\n\ndef test_above():\n"
                '    assert Path("../shared/limits.txt").read_text() == "3\\n"\n'
            ),
            "../shared/limits.txt": "3\n",
            "../.gitignore": "venv/\n",
        },
        setup=_OUTSIDE,
        path="../venv/bin",
        editable="calc.py",
        repository="monorepo",
    ),
    Project(
        "linked-data",
        "tests read a large file through an ignored link that leaves the workspace",
        "pytest -q",
        _PYTHON_BUG,
        files={
            **_PYTHON,
            "tests/test_link.py": (
                "from pathlib import Path\n\nfrom calc import add\n\n\ndef test_link():\n"
                '    assert add(int(Path("data/number.txt").read_text()), 1) == 8\n'
            ),
        },
        ignore="/data\n",
        setup=(
            *_OUTSIDE,
            'mkdir ../data && echo 7 > ../data/number.txt && ln -s "$PWD/../data" data',
        ),
        path="../venv/bin",
        editable="calc.py",
    ),
    Project(
        "linters",
        "ruff and mypy in one line with pytest, .venv by uv, caches ignored",
        "ruff check . && mypy . && pytest -q",
        Bug("calc.py", "-> int:\n    return a + b", '-> int:\n    return f"{a + b}"'),
        files={
            **_PYTHON,
            "calc.py": "def add(a: int, b: int) -> int:\n    return a + b\n",
        },
        ignore=".mypy_cache/\n.ruff_cache/\n",
        setup=uv_venv(".venv", PYTEST, "ruff==0.14.0", "mypy==1.18.2"),
        path=".venv/bin",
        editable="calc.py",
    ),
)
