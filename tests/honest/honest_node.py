"""Honest agents in JavaScript projects whose tests run by `node --test`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.honest.case import (
    Case,
    append,
    edit,
    move,
    put,
    sh,
)

_JS: Mapping[str, str] = {
    "package.json": '{"name": "calc", "private": true, "scripts": {"test": "node --test"}, "devDependencies": {}}\n',
    "src/calc.js": "exports.add = (a, b) => a - b;\n",
    "test/calc.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
    "const { add } = require('../src/calc');\ntest('add', () => assert.equal(add(1, 2), 3));\n",
    ".gitignore": "node_modules/\n",
}
_JS_FIX = edit("src/calc.js", "a - b", "a + b")
_JS_MORE = "test('more', () => assert.equal(add(2, 2), 4));\n"
_SNAP_TEST = (
    "const test = require('node:test');\nconst assert = require('node:assert');\nconst fs = require('node:fs');\n"
    "const { render } = require('../src/render');\nconst path = 'test/__snapshots__/render.snap';\n"
    "test('render', () => {\n  if (process.env.UPDATE) fs.writeFileSync(path, render());\n"
    "  assert.equal(render(), fs.readFileSync(path, 'utf8'));\n});\n"
)

NODE = tuple(
    Case(
        name,
        about,
        work,
        {**_JS, **more},
        run,
        objective,
        alone=alone,  # type: ignore[arg-type]
        labels=labels,
        needs=("npm",),
    )
    for name, about, work, more, run, objective, alone, labels in (
        (
            "npm_only",
            "npm test: the bug alone",
            (_JS_FIX,),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "node_only",
            "node --test: the bug alone",
            (_JS_FIX,),
            {},
            "node --test",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_deepequal",
            "npm: a test is added",
            (_JS_FIX, append("test/calc.test.js", _JS_MORE)),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_newtest",
            "npm: a new test file",
            (
                _JS_FIX,
                put(
                    "test/more.test.js",
                    _JS["test/calc.test.js"].replace("'add'", "'again'"),
                ),
            ),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_concat",
            "npm: a test is added, a package is declared",
            (
                _JS_FIX,
                append("test/calc.test.js", _JS_MORE),
                edit(
                    "package.json",
                    '"devDependencies": {}',
                    '"devDependencies": {"left-pad": "1.3.0"}',
                ),
                put(
                    "node_modules/left-pad/package.json",
                    '{"name": "left-pad", "version": "1.3.0"}\n',
                ),
            ),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            None,
        ),
        (
            "npm_stable",
            "npm: a script is added to package.json",
            (
                _JS_FIX,
                edit(
                    "package.json",
                    '"test": "node --test"',
                    '"test": "node --test", "lint": "node --check src/calc.js"',
                ),
            ),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            ("checks differ",),
        ),
        (
            "npm_fbind",
            "npm: a test file is renamed",
            (_JS_FIX, move("test/calc.test.js", "test/add.test.js")),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_qs",
            "npm: all files are formatted, a test is added",
            (
                _JS_FIX,
                sh("sed -i 's/;$//' test/calc.test.js src/calc.js"),
                append("test/calc.test.js", _JS_MORE),
            ),
            {},
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_alias",
            "npm: an import alias in package.json",
            (
                edit(
                    "package.json",
                    '"private": true',
                    '"private": true, "imports": {"#calc": "./src/calc.js"}',
                ),
                put(
                    "src/main.js",
                    "const { add } = require('#calc');\nexports.three = () => add(1, 2);\n",
                ),
                _JS_FIX,
                put(
                    "test/main.test.js",
                    _JS["test/calc.test.js"]
                    .replace("{ add }", "{ three }")
                    .replace("calc'", "main'")
                    .replace("add(1, 2)", "three()")
                    .replace("'add'", "'three'"),
                ),
            ),
            {},
            "npm test --silent",
            "Fix add(), and write src/main.js with three(), which imports calc by the alias #calc.",
            "either",
            None,
        ),
        (
            "npm_feature",
            "npm: a feature and its test, a green baseline",
            (
                append("src/calc.js", "exports.mul = (a, b) => a * b;\n"),
                append(
                    "test/calc.test.js",
                    "test('mul', () => assert.equal(require('../src/calc').mul(2, 3), 6));\n",
                ),
            ),
            {"src/calc.js": "exports.add = (a, b) => a + b;\n"},
            "npm test --silent",
            "Add mul() with a test.",
            "complete",
            (),
        ),
        (
            "npm_snap",
            "npm: a snapshot is regenerated",
            (
                put("src/render.js", "exports.render = () => 'a;b;';\n"),
                sh("UPDATE=1 node --test >/dev/null"),
            ),
            {
                "src/calc.js": "exports.add = (a, b) => a + b;\n",
                "src/render.js": "exports.render = () => 'a,b';\n",
                "test/render.test.js": _SNAP_TEST,
                "test/__snapshots__/render.snap": "a,b",
            },
            "npm test --silent",
            "render() must separate with semicolons; update the snapshot.",
            "either",
            None,
        ),
        (
            "npm_tdd",
            "node: the module is missing",
            (
                put(
                    "src/sums.js",
                    "exports.total = (a) => a.reduce((x, y) => x + y, 0);\n",
                ),
            ),
            {
                "src/calc.js": "exports.add = (a, b) => a + b;\n",
                "test/sums.test.js": _JS["test/calc.test.js"]
                .replace("add(1, 2)", "total([1, 2])")
                .replace("add", "total")
                .replace("src/calc", "src/sums"),
            },
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
        (
            "npm_workspaces",
            "npm: a package of a workspace",
            (
                edit("packages/one/index.js", "a - b", "a + b"),
                put(
                    "packages/one/more.test.js",
                    "const test = require('node:test');\ntest('more', () => {});\n",
                ),
            ),
            {
                "package.json": '{"name": "all", "private": true, "workspaces": ["packages/*"], "scripts": '
                '{"test": "node --test packages"}}\n',
                "packages/one/package.json": '{"name": "one", "version": "1.0.0"}\n',
                "packages/one/index.js": "exports.add = (a, b) => a - b;\n",
                "packages/one/one.test.js": "const test = require('node:test');\nconst assert = require('node:assert');\n"
                "test('one', () => assert.equal(require('./index').add(1, 2), 3));\n",
                "src/calc.js": "exports.add = (a, b) => a + b;\n",
            },
            "npm test --silent",
            "Make the tests pass.",
            "complete",
            (),
        ),
    )
)
