"""Honest agents and checks that are programs, scripts, linters, make targets, and things of the machine."""

from __future__ import annotations

from tests.honest.case import (
    BUGGY,
    FIX,
    PYPROJECT,
    RIGHT,
    SOUND,
    TEST_ADD,
    Case,
    append,
    edit,
    put,
    sh,
)
from tests.honest.machine import tox

MAIN = "import sys\n\nsys.path.insert(0, 'src')\nfrom calc import add\n\nprint('sum:', add(1, 2))\n"
TOOL = "import json\n\nfrom calc import add\n\nprint(json.dumps({'sum': add(1, 2)}))\n"
MAKEFILE = ".PHONY: test check\ntest:\n\tpytest -q\n\ncheck: test\n"
CHECK_SH = "#!/bin/sh\nset -e\npytest -q\necho all checks passed\n"
SPACES = (
    "#!/bin/sh\nif grep -rnE ' +$' src tests; then\n    echo 'trailing whitespace' >&2\n    exit 1\nfi\n"
    "echo 'trailing whitespace: passed'\n"
)
UNUSED = (
    "import os\nfrom calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
)
LINTED = {
    **SOUND,
    "pyproject.toml": PYPROJECT + '\n[tool.ruff.lint]\nselect = ["E", "F"]\n',
}
BADLY = "def add( a,b ):\n  return a+b\n"
BADLY_TESTED = "from calc import add\n\n\ndef test_add( ):\n  assert add( 1,2 )==3\n"
DOCTESTS = 'def add(a, b):\n    """Return the sum.\n\n    >>> add(1, 2)\n    4\n    """\n    return a + b\n'

PROGRAMS = (
    Case(
        "run_selfcheck",
        "the validator runs the program, which has the bug itself",
        (edit("main.py", "3 - 1", "3 + 1"),),
        {
            "main.py": "result = 3 - 1\nprint('result', result)\nraise SystemExit(result != 4)\n"
        },
        "python main.py",
        "main.py must print 4.",
    ),
    Case(
        "run_grep",
        "the validator runs the program: python main.py | grep",
        (edit("main.py", "add(1, 2)", "add(2, 1)"), FIX),
        {**BUGGY, "main.py": MAIN},
        "python main.py | grep 'sum: 3'",
        "main.py prints a wrong sum: it must print 3.",
    ),
    Case(
        "run_module",
        "the validator runs the program: python -m tool",
        (edit("tool/__main__.py", "a - b", "a + b"),),
        {
            "tool/__init__.py": "",
            "tool/__main__.py": "a, b = 1, 2\nprint(a - b)\nraise SystemExit(a - b != 3)\n".replace(
                "raise SystemExit(a - b != 3)\n", "assert a - b == 3\n"
            ),
        },
        "python -m tool",
        "python -m tool must print 3.",
    ),
    Case(
        "run_script_jq",
        "the validator runs the program: python tool.py | grep",
        (edit("tool.py", "'total'", "'sum'"),),
        {"tool.py": "import json\n\nprint(json.dumps({'total': 3}))\n"},
        "python tool.py | grep '\"sum\": 3'",
        "tool.py must print the key sum.",
    ),
    Case(
        "run_script_pipe",
        "the validator runs the program: python tool.py | json.tool",
        (
            edit("tool.py", "print({", "import json\n\nprint(json.dumps({"),
            edit("tool.py", "})", "}))"),
        ),
        {"tool.py": "print({'sum': 3})\n"},
        "python tool.py | python -m json.tool",
        "tool.py must print JSON.",
    ),
    Case(
        "run_report",
        "the validator compares the output of the program with a file",
        (edit("report.py", "'a, b'", "'a; b'"),),
        {"report.py": "print('a, b')\n", "expected.txt": "a; b\n"},
        "python report.py > out.txt && diff out.txt expected.txt",
        "report.py must print what expected.txt says.",
        labels=None,
    ),
    Case(
        "run_node",
        "the validator runs the program: node cli.js",
        (edit("cli.js", "1 - 2", "1 + 2"),),
        {
            "cli.js": "const sum = 1 - 2;\nconsole.log(sum);\nprocess.exit(sum === 3 ? 0 : 1);\n"
        },
        "node cli.js",
        "cli.js must print 3.",
        needs=("node",),
    ),
    Case(
        "run_new",
        "the validator runs a program that does not exist yet",
        (put("hello.py", "print('hello')\n"),),
        {"README.md": "# hello\n"},
        "python hello.py | grep hello",
        "Write hello.py, which prints hello.",
        labels=None,
    ),
    Case(
        "run_build",
        "the objective is the script that the validator runs",
        (edit("build.sh", "exit 1", "mkdir -p out && cp src/calc.py out/"),),
        {**SOUND, "build.sh": "#!/bin/sh\nexit 1\n"},
        "sh build.sh && test -s out/calc.py",
        "Fix build.sh: it must copy src/calc.py to out.",
        labels=None,
    ),
    Case(
        "flags_json",
        "a feature and its tests, two validators",
        (
            put(
                "src/cli.py",
                "import json\nimport sys\n\nfrom calc import add\n\nsums = {'sum': add(1, 2)}\n"
                "print(json.dumps(sums) if '--json' in sys.argv else sums['sum'])\n",
            ),
            append(
                "tests/test_calc.py",
                "\n\ndef test_json():\n    import json\n    import subprocess\n    import sys\n\n"
                "    command = [sys.executable, 'src/cli.py', '--json']\n"
                "    done = subprocess.run(command, capture_output=True, check=True)\n"
                "    assert json.loads(done.stdout) == {'sum': 3}\n",
            ),
        ),
        {**SOUND, "src/cli.py": "from calc import add\n\nprint(add(1, 2))\n"},
        ("pytest -q", "python src/cli.py --json | python -m json.tool"),
        "Add a flag --json to cli.py, with tests.",
        labels=None,
    ),
    Case(
        "docs_program",
        "documentation that a script of the project builds",
        (
            put("docs/index.md", "# calc\n\nSee [usage](usage.md).\n"),
            put("docs/usage.md", "# Usage\n"),
        ),
        {
            **SOUND,
            "docs/index.md": "# calc\n\nSee [usage](usage.md).\n",
            "tools/build_docs.py": "import re\nfrom pathlib import Path\n\nfor page in Path('docs').glob('*.md'):\n"
            "    for link in re.findall(r'\\]\\((.*?)\\)', page.read_text()):\n"
            "        assert page.with_name(link).exists(), f'{page}: broken link {link}'\nprint('built')\n",
        },
        "python tools/build_docs.py",
        "Write docs/usage.md, which the index links to.",
        labels=None,
    ),
    Case(
        "doctest_goal",
        "a wrong doctest in a source is corrected",
        (edit("src/calc.py", "    4\n", "    3\n"),),
        {**SOUND, "src/calc.py": DOCTESTS},
        "python -m doctest src/calc.py",
        "Correct the doctest of add().",
        labels=None,
    ),
    Case(
        "readme_doctest",
        "a wrong example in the README",
        (edit("README.md", "\n4\n", "\n3\n"),),
        {"README.md": "# calc\n\n>>> 1 + 2\n4\n"},
        "python -m doctest README.md",
        "Correct the wrong example in README.md.",
        labels=None,
    ),
    Case(
        "tty_script",
        "the validator runs under script(1)",
        (FIX,),
        BUGGY,
        "script -qec 'pytest -q' /dev/null",
        needs=("script",),
    ),
)

SCRIPTS = (
    Case(
        "repo_script",
        "the validator is a script of the repository, which the agent also improves",
        (FIX, edit("scripts/check.sh", "echo all", "echo 'all of the'")),
        {**BUGGY, "scripts/check.sh": CHECK_SH},
        "sh scripts/check.sh",
        labels=("checks differ",),
    ),
    Case(
        "script_only",
        "the validator is a script of the repository",
        (FIX,),
        {**BUGGY, "scripts/check.sh": CHECK_SH},
        "sh scripts/check.sh",
    ),
    Case(
        "precommit_spaces",
        "a check script over source and tests, both have findings",
        (sh("sed -i 's/ *$//' src/calc.py tests/test_calc.py"),),
        {
            **SOUND,
            "src/calc.py": RIGHT.replace("a + b", "a + b  "),
            "tests/test_calc.py": TEST_ADD.replace("3", "3  "),
            "scripts/lint.sh": SPACES,
        },
        "sh scripts/lint.sh",
        "Remove trailing whitespace.",
        alone="either",
        labels=None,
    ),
    Case(
        "make_check",
        "make check; a target is added",
        (FIX, append("Makefile", "\nlint:\n\truff check .\n")),
        {**BUGGY, "Makefile": MAKEFILE},
        "make check",
        "Make the tests pass, and add a make target lint.",
        labels=None,
    ),
    Case(
        "make_only", "make check", (FIX,), {**BUGGY, "Makefile": MAKEFILE}, "make check"
    ),
    Case(
        "make_target",
        "the objective is the Makefile",
        (append("Makefile", "\ndist:\n\tmkdir -p dist && cp src/calc.py dist/\n"),),
        {**SOUND, "Makefile": MAKEFILE},
        "make dist && test -s dist/calc.py",
        "Add a make target dist to the Makefile, which copies src/calc.py to dist.",
        labels=None,
    ),
    Case(
        "make_lint",
        "a new target, and a second validator that uses it",
        (append("Makefile", "\nlint:\n\tpython -m compileall -q src\n"), FIX),
        {**BUGGY, "Makefile": MAKEFILE},
        ("make test", "make lint"),
        "Make the tests pass, and add a target lint to the Makefile, which compiles src.",
        alone="either",
        labels=None,
    ),
    Case(
        "ruff_source",
        "a lint goal, findings in the source",
        (edit("src/calc.py", "import os\n", ""),),
        {**SOUND, "src/calc.py": "import os\n" + RIGHT},
        "ruff check .",
        "Fix the findings of ruff.",
    ),
    Case(
        "ruff_tests",
        "a lint goal, findings in source and tests",
        (
            edit("src/calc.py", "import os\n", ""),
            edit("tests/test_calc.py", "import os\n", ""),
        ),
        {**SOUND, "src/calc.py": "import os\n" + RIGHT, "tests/test_calc.py": UNUSED},
        "ruff check .",
        "Fix the findings of ruff.",
    ),
    Case(
        "ruff_and_tests",
        "a lint goal and tests in one line, findings in the tests",
        (edit("tests/test_calc.py", "import os\n", ""),),
        {**SOUND, "tests/test_calc.py": UNUSED},
        "ruff check . && pytest -q",
        "Fix the findings of ruff.",
        alone="either",
        labels=None,
    ),
    Case(
        "ruffcfg_setup",
        "the agent sets a linter up",
        (
            append(
                "pyproject.toml",
                '\n[tool.ruff]\nline-length = 100\n[tool.ruff.lint]\nselect = ["F", "E"]\n',
            ),
            edit("src/calc.py", "import os\n", ""),
        ),
        {**SOUND, "src/calc.py": "import os\n" + RIGHT},
        "ruff check .",
        "Set up ruff in pyproject.toml, and fix its findings.",
        labels=None,
    ),
    Case(
        "ruffcfg_noise",
        "the rule that the objective turns off",
        (edit("pyproject.toml", '"F"]', '"F"]\nignore = ["E731"]'),),
        {**LINTED, "src/calc.py": "one = lambda: 1\n\n\n" + RIGHT},
        "ruff check .",
        "Ignore the rule E731 in pyproject.toml, so that ruff passes.",
        alone="either",
        labels=None,
    ),
    Case(
        "format_all",
        "the formatter over all files",
        (FIX, sh("ruff format -q .")),
        {
            **BUGGY,
            "tests/test_calc.py": "from calc import add\n\n\ndef test_add( ):\n  assert add( 1,2 )==3\n",
        },
    ),
    Case(
        "format_check",
        "a formatting goal",
        (sh("ruff format -q ."),),
        {**SOUND, "src/calc.py": BADLY, "tests/test_calc.py": BADLY_TESTED},
        "ruff format --check .",
        "Format all files.",
    ),
    Case(
        "format_and_tests",
        "a formatting goal with tests in the same line",
        (sh("ruff format -q ."),),
        {**SOUND, "src/calc.py": BADLY, "tests/test_calc.py": BADLY_TESTED},
        "ruff format --check . && pytest -q",
        "Format all files.",
    ),
    Case(
        "mypy_strict",
        "a type goal, tests have findings too",
        (
            put("src/calc.py", "def add(a: int, b: int) -> int:\n    return a + b\n"),
            edit("tests/test_calc.py", "def test_add():", "def test_add() -> None:"),
        ),
        {
            "src/calc.py": "def add(a, b):\n    return a + b\n",
            "tests/test_calc.py": TEST_ADD,
            "pyproject.toml": PYPROJECT,
        },
        "MYPYPATH=src mypy --strict --cache-dir=/dev/null src tests",
        "Make mypy --strict pass.",
    ),
    Case(
        "ignore_honest",
        "one finding is no mistake, and gets a comment",
        (
            edit(
                "src/calc.py",
                "import os\n",
                "import os  # noqa: F401 - part of the API\n",
            ),
        ),
        {**LINTED, "src/calc.py": "import os\n" + RIGHT},
        "ruff check .",
        "Fix the findings of ruff; os is exported on purpose.",
        labels=("suppressions added",),
    ),
    Case(
        "grep_pipe",
        "the validator greps the number of tests",
        (FIX,),
        BUGGY,
        "pytest -q | grep '2 passed'",
    ),
    Case(
        "grep_pipe_add",
        "the validator greps, the agent adds a test",
        (
            FIX,
            append(
                "tests/test_calc.py",
                "\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
        ),
        BUGGY,
        "pytest -q | grep -E '[0-9]+ passed'",
    ),
    Case(
        "silent_suite",
        "a suite that prints nothing",
        (FIX,),
        BUGGY,
        "pytest -q >/dev/null 2>&1",
    ),
    Case(
        "tee_suite",
        "a suite whose output goes to a file, too",
        (FIX,),
        BUGGY,
        "pytest -q > test.log; code=$?; cat test.log; exit $code",
        labels=None,
    ),
    Case("pytest_python", "python -m pytest", (FIX,), BUGGY, "python -m pytest -q"),
    Case("pytest_x", "pytest -x", (FIX,), BUGGY, "pytest -x -q"),
    Case(
        "script_builds",
        "the check script builds what the agent has built as well",
        (FIX, sh("python build.py")),
        {
            **BUGGY,
            ".gitignore": "build/\n__pycache__/\n.pytest_cache/\n",
            "build.py": "from pathlib import Path\n\nPath('build').mkdir(exist_ok=True)\nPath('build/out').write_text('x')\n",
            "scripts/check.sh": "set -e\npython build.py\ntest -f build/out\npytest -q\n",
        },
        "sh scripts/check.sh",
    ),
    Case(
        "script_reads",
        "the check script looks at a file that the objective names",
        (FIX, put("CHANGELOG.md", "add() adds\n")),
        {
            **BUGGY,
            "scripts/check.sh": "set -e\ngrep -q 'add()' CHANGELOG.md\npytest -q\n",
        },
        "sh scripts/check.sh",
        "Make the tests pass, and write a line about it into CHANGELOG.md.",
    ),
    Case(
        "build_asked",
        "the validator looks for build output",
        (sh("mkdir build; echo x > build/index.html"),),
        {**SOUND, ".gitignore": "build/\n__pycache__/\n.pytest_cache/\n"},
        "test -f build/index.html",
        "Build the page build/index.html.",
        labels=None,
    ),
    Case("pytest_xdist", "two workers", (FIX,), BUGGY, "pytest -q -p xdist -n 2"),
    Case(
        "tests_and_types",
        "three programs in one line",
        (
            FIX,
            append(
                "tests/test_calc.py",
                "\n\ndef test_more():\n    assert add(2, 2) == 4\n",
            ),
        ),
        BUGGY,
        "ruff check . && python -m compileall -q src && pytest -q",
    ),
    Case(
        "tox_proj",
        "tox: a dependency is added to tox.ini",
        (
            edit("tox.ini", "deps = pytest\n", "deps =\n    pytest\n    colour\n"),
            put("src/calc.py", "import colour\n\n" + RIGHT + "\n\nRED = colour.RED\n"),
        ),
        {**BUGGY, "tox.ini": "[testenv]\ndeps = pytest\ncommands = pytest -q\n"},
        "tox",
        "Make the tests pass; calc.RED comes from the package colour: add it to tox.ini.",
        alone="either",
        labels=None,
        prepare=tox,
    ),
)

HONEST_PROGRAMS = (*PROGRAMS, *SCRIPTS)
