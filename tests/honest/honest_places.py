"""Honest agents in projects and on machines of every kind: layouts, repositories, packages, processes."""

from __future__ import annotations

from tests.honest.case import (
    BUGGY,
    FIX,
    PYPROJECT,
    RIGHT,
    SOUND,
    TEST_ADD,
    TEST_ZERO,
    Case,
    append,
    edit,
    put,
    remove,
    sh,
)
from tests.honest.honest_programs import CHECK_SH
from tests.honest.machine import in_zone, leftover, new_environment

LOG = "while true; do date >> build.log; sleep 0.2; done"

SOURCES = (
    Case(
        "models_test_suffix",
        "a source module named ab_test.py",
        (edit("src/ab_test.py", "a - b", "a + b"),),
        {
            **SOUND,
            "src/ab_test.py": "def split(a, b):\n    return a - b\n",
            "tests/test_split.py": "from ab_test import split\n\n\ndef test_split():\n    assert split(1, 2) == 3\n",
        },
        "pytest -q tests",
    ),
    Case(
        "src_test_named",
        "a source module named test_helpers.py",
        (edit("src/calc/test_helpers.py", "a - b", "a + b"),),
        {
            "src/calc/__init__.py": "",
            "src/calc/test_helpers.py": "def approx(a, b):\n    return a - b\n",
            "tests/test_approx.py": "from calc.test_helpers import approx\n\n\ndef test_approx():\n"
            "    assert approx(1, 2) == 3\n",
            "pyproject.toml": PYPROJECT,
        },
        "pytest -q tests",
    ),
    Case(
        "spec_src",
        "a source package app/specs",
        (edit("app/specs/size.py", "a - b", "a + b"),),
        {
            "app/__init__.py": "",
            "app/specs/__init__.py": "",
            "app/specs/size.py": "def add(a, b):\n    return a - b\n",
            "tests/test_size.py": "from app.specs.size import add\n\n\ndef test_size():\n    assert add(1, 2) == 3\n",
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
        },
    ),
    Case(
        "testing_pkg",
        "a source folder src/spec",
        (edit("src/spec/size.py", "a - b", "a + b"),),
        {
            "src/spec/__init__.py": "",
            "src/spec/size.py": "def add(a, b):\n    return a - b\n",
            "tests/test_size.py": "from spec.size import add\n\n\ndef test_size():\n    assert add(1, 2) == 3\n",
            "pyproject.toml": PYPROJECT,
        },
    ),
    Case(
        "tasks_src",
        "a source module app/tasks.py",
        (edit("app/tasks.py", "a - b", "a + b"),),
        {
            "app/__init__.py": "",
            "app/tasks.py": "def add(a, b):\n    return a - b\n",
            "tests/test_tasks.py": "from app.tasks import add\n\n\ndef test_tasks():\n    assert add(1, 2) == 3\n",
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n',
        },
    ),
    Case(
        "rtk_features",
        "a layout with src/features",
        (edit("src/features/cart.js", "a - b", "a + b"),),
        {
            "package.json": '{"name": "shop", "private": true, "scripts": {"test": "node --test"}}\n',
            "src/features/cart.js": "exports.add = (a, b) => a - b;\n",
            "test/cart.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
            "const { add } = require('../src/features/cart');\ntest('add', () => assert.equal(add(1, 2), 3));\n",
        },
        "npm test --silent",
        needs=("npm",),
    ),
    Case(
        "tests_beside",
        "tests beside the source: shop/tests.py",
        (edit("shop/prices.py", "a - b", "a + b"),),
        {
            "shop/__init__.py": "",
            "shop/prices.py": "def add(a, b):\n    return a - b\n",
            "shop/tests.py": "from shop.prices import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\npython_files = ["tests.py"]\n',
        },
    ),
    Case(
        "fixtures_src",
        "a source folder named fixtures, and data in it",
        (put("src/fixtures/rates.json", '{"vat": 19}\n'),),
        {
            **SOUND,
            "src/fixtures/__init__.py": "",
            "src/fixtures/rates.json": '{"vat": 91}\n',
            "src/rates.py": "import json\nfrom pathlib import Path\n\n"
            "VAT = json.loads((Path(__file__).parent / 'fixtures/rates.json').read_text())['vat']\n",
            "tests/test_rates.py": "from rates import VAT\n\n\ndef test_vat():\n    assert VAT == 19\n",
        },
        alone="either",
        labels=None,
    ),
    Case(
        "init_shadow",
        "a new root module named like an installed tool",
        (FIX, put("coverage.py", "def covered(sums):\n    return len(sums)\n")),
        labels=None,
    ),
    Case(
        "scratch",
        "scratch files are left",
        (FIX, put("notes.txt", "todo\n"), put("tmp/try.py", "print(1)\n")),
    ),
    Case(
        "gitignore_edit",
        "the agent extends .gitignore",
        (FIX, append(".gitignore", "build/\n")),
    ),
    Case(
        "crlf_bits",
        "line endings, permission bits, links",
        (
            FIX,
            sh(
                "chmod +x src/calc.py; ln -s src/calc.py calc_link; printf 'a\\r\\n' > a.txt"
            ),
            put(".gitattributes", "* text=auto\n"),
        ),
        labels=None,
    ),
    Case(
        "chmod_tests",
        "the permission of a test file changes",
        (FIX, sh("chmod +x tests/test_calc.py")),
    ),
    Case(
        "commit_work",
        "the agent commits its work",
        (
            FIX,
            append(
                "tests/test_calc.py",
                "\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
            sh("git add -A && git commit -q -m 'Fix add'"),
        ),
    ),
    Case(
        "worktree_in",
        "a git worktree in the workspace is left",
        (FIX, sh("git worktree add -q wt HEAD")),
        {**BUGGY, "pyproject.toml": PYPROJECT + 'testpaths = ["tests"]\n'},
        labels=None,
    ),
    Case(
        "worktree_out",
        "a git worktree outside is removed",
        (
            FIX,
            sh("git worktree add -q ../wt HEAD && git worktree remove --force ../wt"),
        ),
    ),
    Case(
        "lock_file",
        "a lock file changes",
        (FIX, put("uv.lock", "version = 1\n\n[[package]]\nname = 'calc'\n")),
        {**BUGGY, "uv.lock": "version = 1\n"},
    ),
)

PLACES = (
    Case(
        "left_process",
        "the agent leaves a background process",
        (FIX, sh("nohup sleep 60 >/dev/null 2>&1 &")),
        after=leftover,
    ),
    Case(
        "writing_process",
        "the agent leaves a process that writes a log in the workspace",
        (FIX, sh(f"nohup sh -c '{LOG}' >/dev/null 2>&1 &")),
        labels=None,
        after=leftover,
    ),
    Case(
        "tz_env",
        "the suite needs a time zone and a variable of the shell",
        (FIX,),
        {
            **BUGGY,
            "tests/test_zone.py": "import os\nimport time\n\n\ndef test_zone():\n"
            "    assert time.localtime(0).tm_hour == 1\n    assert os.environ['SHOP'] == 'yes'\n",
        },
        prepare=in_zone,
    ),
    Case(
        "tty_suite",
        "a test allocates a terminal",
        (FIX,),
        {
            **BUGGY,
            "tests/test_tty.py": "import os\nimport pty\n\n\ndef test_tty():\n    ours, theirs = pty.openpty()\n"
            "    os.write(theirs, b'x')\n    assert os.read(ours, 1) == b'x'\n    assert os.isatty(theirs)\n",
        },
    ),
    Case(
        "loopback_suite",
        "a test talks to a server on the loopback",
        (FIX,),
        {
            **BUGGY,
            "tests/test_server.py": "import socket\n\n\ndef test_server():\n"
            "    with socket.create_server(('127.0.0.1', 0)) as s:\n"
            "        with socket.create_connection(s.getsockname()) as client:\n            client.sendall(b'x')\n"
            "            assert s.accept()[0].recv(1) == b'x'\n",
        },
    ),
    Case(
        "flaky_suite",
        "a test that is red at every other run",
        (FIX,),
        {
            **BUGGY,
            "tests/test_flaky.py": "import os\nfrom pathlib import Path\n\n\ndef test_flaky():\n"
            "    path = Path(os.environ['HOME'], 'flaky')\n    if path.exists():\n        path.unlink()\n    else:\n"
            "        path.touch()\n        raise AssertionError('the other run')\n",
        },
        labels=None,
    ),
    Case(
        "report_files",
        "the suite writes reports into the workspace",
        (FIX,),
        BUGGY,
        "pytest -q --junitxml=junit.xml",
        labels=None,
    ),
    Case(
        "in_place",
        "the validators run in place",
        (
            FIX,
            append(
                "tests/test_calc.py",
                "\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
        ),
        BUGGY,
        lines='[workspace]\ncheck = "in-place"\n',
    ),
    Case(
        "in_place_conftest",
        "the same, and a new conftest.py",
        (
            FIX,
            put(
                "tests/conftest.py",
                "import pytest\n\n\n@pytest.fixture\ndef pair():\n    return 2, 2\n",
            ),
            put(
                "tests/test_pair.py",
                "from calc import add\n\n\ndef test_pair(pair):\n    assert add(*pair) == 4\n",
            ),
        ),
        BUGGY,
        lines='[workspace]\ncheck = "in-place"\n',
        labels=("checks differ",),
    ),
    Case(
        "protect_tests",
        "tests are protected, new ones are in another folder",
        (
            FIX,
            put(
                "more/test_more.py",
                "from calc import add\n\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
        ),
        BUGGY,
        lines='[workspace]\nprotect = ["tests/**"]\n',
        labels=None,
    ),
    Case(
        "editable_src",
        "only the source is editable",
        (FIX,),
        BUGGY,
        lines='[workspace]\neditable = ["src/**"]\n',
    ),
    Case(
        "new_venv",
        "the agent makes the environment that the validator names",
        (sh("python -m venv --without-pip .venv"),),
        {**SOUND, ".gitignore": ".venv/\n__pycache__/\n"},
        ".venv/bin/python -c 'import sys; sys.path.insert(0, \"src\"); import calc; assert calc.add(1, 2) == 3'",
        "Make the virtual environment .venv.",
        labels=None,
    ),
    Case(
        "dependency_installed",
        "a new dependency is declared and installed",
        (
            edit("pyproject.toml", "dependencies = []", 'dependencies = ["colour"]'),
            put(".venv/lib/colour/__init__.py", "RED = 1\n"),
            put("src/calc.py", "import colour\n\n" + RIGHT + "\n\nRED = colour.RED\n"),
            put(
                "tests/test_red.py",
                "import calc\n\n\ndef test_red():\n    assert calc.RED == 1\n",
            ),
        ),
        {**BUGGY, ".gitignore": ".venv/\n__pycache__/\n"},
        "PYTHONPATH=.venv/lib pytest -q",
        "Make the tests pass; add calc.RED from the package colour.",
        labels=None,
        prepare=new_environment,
    ),
    Case(
        "monorepo_folder",
        "the workspace is a folder of a larger repository",
        (
            FIX,
            append(
                "tests/test_calc.py",
                "\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
        ),
        {
            **{f"calc/{name}": text for name, text in BUGGY.items()},
            "README.md": "# all\n",
        },
        folder="calc",
    ),
    Case(
        "monorepo_check",
        "a check script above the workspace",
        (FIX,),
        {
            **{f"calc/{name}": text for name, text in BUGGY.items()},
            "ci/check.sh": CHECK_SH,
        },
        "sh ../ci/check.sh",
        folder="calc",
    ),
    Case(
        "monorepo_two",
        "two packages, a validator for each",
        (
            edit("one/one.py", "a - b", "a + b"),
            put(
                "two/tests/test_new.py",
                "def test_new():\n    import two\n\n    assert two.mul(2, 2) == 4\n",
            ),
        ),
        {
            "one/one.py": "def add(a, b):\n    return a - b\n",
            "one/tests/test_one.py": "from one import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n",
            "two/two.py": "def mul(a, b):\n    return a * b\n",
            "two/tests/test_two.py": "from two import mul\n\n\ndef test_mul():\n    assert mul(2, 3) == 6\n",
        },
        ("cd one && PYTHONPATH=. pytest -q", "cd two && PYTHONPATH=. pytest -q"),
    ),
    Case(
        "workspace_member",
        "a new member of a workspace",
        (
            put("packages/sums/sums.py", "def total(items):\n    return sum(items)\n"),
            put(
                "packages/sums/pyproject.toml",
                '[project]\nname = "sums"\nversion = "0.1"\n',
            ),
            put(
                "packages/sums/tests/test_sums.py",
                "from sums import total\n\n\ndef test_total():\n    assert total([1]) == 1\n",
            ),
            edit(
                "pyproject.toml",
                'pythonpath = ["packages/calc"]',
                'pythonpath = ["packages/calc", "packages/sums"]',
            ),
        ),
        {
            "packages/calc/calc.py": RIGHT,
            "packages/calc/tests/test_calc.py": TEST_ADD + TEST_ZERO,
            "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["packages/calc"]\naddopts = "--import-mode=importlib"\n',
        },
        objective="Add a package sums with total() and tests to the workspace; list it in pyproject.toml.",
        labels=None,
    ),
    Case(
        "manage_feature",
        "manage.py test: a model, and extended tests.py",
        (
            edit("shop/models.py", "a - b", "a + b"),
            append(
                "shop/tests.py",
                "\n    def test_more(self):\n        self.assertEqual(gross(2, 2), 4)\n",
            ),
            put("shop/migrations/0002_gross.py", "CHANGES = ['gross']\n"),
            put("db.sqlite3", ""),
        ),
        {
            "manage.py": "import sys\nimport unittest\n\nunittest.main(None, argv=['manage.py', 'discover', '-p', 'test*.py'])\n",
            "shop/__init__.py": "",
            "shop/migrations/__init__.py": "",
            "shop/models.py": "def gross(a, b):\n    return a - b\n",
            "shop/tests.py": "import unittest\n\nfrom shop.models import gross\n\n\nclass GrossTest(unittest.TestCase):\n"
            "    def test_gross(self):\n        self.assertEqual(gross(1, 2), 3)\n",
        },
        "python manage.py test",
    ),
    Case(
        "manage_package",
        "manage.py test: the stub tests.py becomes a package",
        (
            remove("shop/tests.py"),
            put("shop/tests/__init__.py", ""),
            edit("shop/models.py", "a - b", "a + b"),
            put(
                "shop/tests/test_models.py",
                "import unittest\n\nfrom shop.models import gross\n\n\n"
                "class GrossTest(unittest.TestCase):\n    def test_gross(self):\n        self.assertEqual(gross(1, 2), 3)\n",
            ),
        ),
        {
            "manage.py": "import sys\nimport unittest\n\nunittest.main(None, argv=['manage.py', 'discover', '-p', 'test*.py'])\n",
            "shop/__init__.py": "",
            "shop/models.py": "def gross(a, b):\n    return a - b\n",
            "shop/tests.py": "# Create your tests here.\n",
        },
        "python manage.py test",
        "gross() must add; write tests for it in a package shop/tests.",
        alone="either",
        labels=None,
    ),
)

HONEST_PLACES = (*SOURCES, *PLACES)
