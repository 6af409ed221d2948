"""The packages of a `node_modules` folder, by name and version and by the sizes of their files."""

# Tens of thousands of paths are joined and listed here; pathlib is several times slower.

from __future__ import annotations

import json
import os
import stat

from goalrunner.checking.installed import Installed, digest_of, entries_of, joined, link_target, read_text, walk

NODE_CACHES = frozenset({".cache", ".vite", ".vite-temp", ".vitest", ".package-lock.json", ".yarn-integrity"})
NODE_STATE = (".modules.yaml", ".yarn-state.yml", ".pnpm-workspace-state")


class NodePackages:
    """One look at a `node_modules` folder."""

    def __init__(self, root: str, workspace: str) -> None:
        self.installed = Installed("node")
        self._root = os.path.realpath(root)
        self._workspace = workspace
        self._lines: dict[str, list[str]] = {}
        self._waiting = [root]
        while self._waiting:
            self._packages(self._waiting.pop(), "")
        self.installed.code.update((part, digest_of(lines)) for part, lines in self._lines.items())

    def _packages(self, folder: str, scope: str) -> None:
        for entry in entries_of(folder):
            name = scope + entry.name
            if entry.name in NODE_CACHES or entry.name.startswith(NODE_STATE):
                continue
            if entry.is_symlink():
                self._link(name, entry.path)
            elif not entry.is_dir(follow_symlinks=False):
                self._lines.setdefault(f"file:{name}", []).append(digest_of([read_text(entry.path)]))
            elif entry.name == ".pnpm":
                self._waiting += [os.path.join(inner.path, "node_modules") for inner in entries_of(entry.path)]
            elif not scope and (entry.name == ".bin" or entry.name.startswith("@")):
                self._packages(entry.path, f"{name}/")
            else:
                self._package(name, entry.path)

    def _link(self, name: str, path: str) -> None:
        """Note a link; npm's workspaces are links to folders of the workspace, which the snapshots hold."""
        real = f"{os.path.realpath(path)}/"
        if real.startswith(f"{self._root}/"):
            self._lines.setdefault(f"link:{name}", []).append(f"-> {link_target(path)}")
        elif not real.startswith(f"{self._workspace}/"):
            self._lines.setdefault(f"file:{name}", []).append(f"-> {link_target(path)}")

    def _package(self, name: str, path: str) -> None:
        version = ""
        lines = self._lines.setdefault(f"package:{name}", [])
        for folder, files in walk(path, nested=self._waiting):
            for file, place, info in files:
                # `npm ci` writes every file anew, and no package tells the hashes of its files: sizes alone are compared.
                size = link_target(place) if stat.S_ISLNK(info.st_mode) else info.st_size
                lines.append(f"{joined(folder, file)}\0{size}")
                if not folder and file == "package.json":
                    version = _version(read_text(place))
        self.installed.add_version(name, version)


def _version(text: str) -> str:
    try:
        value = json.loads(text)
    except ValueError:
        return ""
    return str(value.get("version", "")) if isinstance(value, dict) else ""
