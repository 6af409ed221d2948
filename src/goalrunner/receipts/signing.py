"""Signatures of receipts by `ssh-keygen -Y`, beside the file as `receipt.json.sig`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from goalrunner.core.errors import UsageError
from goalrunner.exports.change import person_environment
from goalrunner.snapshots.git import git_program

NAMESPACE = "goal-receipt"
"""Keeps a signature of another kind of file from counting for a receipt."""
_PATIENCE = 60.0


def signature_of(file: Path) -> Path:
    """Return where the signature of a receipt is."""
    return file.with_name(f"{file.name}.sig")


def check_key(key: Path) -> None:
    """Raise UsageError for a key that cannot be read, or without ssh-keygen."""
    _program()
    if not key.is_file():
        raise UsageError(
            f"--sign {key}: no such file", "ssh-keygen -t ed25519 -f KEY makes one"
        )


def sign_file(file: Path, key: Path) -> Path:
    """Sign a receipt, and return the file with the signature. Raise UsageError.

    The agent of SSH is asked if the key is a public one.
    """
    signature = signature_of(file)
    # ssh-keygen would ask whether it may replace the file.
    signature.unlink(missing_ok=True)
    # It prints its prompts on the terminal, and writes the signature beside the file.
    done = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(file))
    if done.returncode != 0 or not signature.exists():
        raise UsageError(
            f"{file} could not be signed with {key}: {_errors(done)}",
            "ssh-add KEY, and --sign KEY.pub, for a key with a passphrase",
        )
    return signature


def signers_of_git(environ: Mapping[str, str]) -> Path | None:
    """Return the file of allowed signers in git's configuration; None without one.

    Git verifies signed commits with it, so a person names the signers once.
    """
    git = git_program(Path.cwd(), environ)
    done = subprocess.run(
        [git, "config", "--type=path", "--get", "gpg.ssh.allowedSignersFile"],
        env=person_environment(environ),
        capture_output=True,
        check=False,
    )
    path = os.fsdecode(done.stdout).strip()
    return Path(path) if done.returncode == 0 and path else None


@dataclass(frozen=True)
class Signer:
    """Who signed a receipt."""

    identity: str
    """The name that the file of allowed signers gives; empty: the signer is unknown."""
    key: str
    """What ssh-keygen prints of the key."""


def verify_signature(file: Path, signature: Path, allowed: Path | None) -> Signer:
    """Return who signed a receipt. Raise UsageError if the signature does not fit.

    `allowed` is a file of allowed signers, as ssh-keygen(1) describes it. Without it,
    or if it does not have the key, the identity is empty: the signature then shows only
    that the file was not changed after it was signed.
    """
    content = file.read_bytes()
    key = _signing_key(file, signature, content)
    names = _names_of_signer(signature, allowed) if allowed is not None else []
    if not names:
        return Signer("", key)
    for name in names:
        words = ("-Y", "verify", *_of_receipt(signature), "-f", str(allowed))
        done = _ssh_keygen(*words, "-I", name, stdin=content)
        # Another line of the same key may be for another namespace.
        if done.returncode == 0:
            return Signer(name, key)
    # The file may allow the key for another namespace alone.
    raise UsageError(
        f"{names[0]} may not sign receipts: {_errors(done)}",
        f'write namespaces="{NAMESPACE}" in the line of this key in {allowed}',
    )


def _signing_key(file: Path, signature: Path, content: bytes) -> str:
    """Return what ssh-keygen prints of the key that signed a receipt.

    Raise UsageError if the signature does not fit the content.
    """
    # It checks that key and content fit, and asks for no identity.
    words = ("-Y", "check-novalidate", *_of_receipt(signature))
    done = _ssh_keygen(*words, stdin=content)
    if done.returncode != 0:
        problem = _last_line(done) or _errors(done)
        raise UsageError(
            f"the signature of {file} does not fit: {problem}",
            "the receipt was changed after it was signed, or has another signature",
        )
    return _last_line(done)


def _names_of_signer(signature: Path, allowed: Path) -> list[str]:
    """Return the names that the file of allowed signers gives to the signing key.

    `verify` of ssh-keygen needs the name of the signer.
    """
    words = ("-Y", "find-principals", "-s", str(signature), "-f", str(allowed))
    done = _ssh_keygen(*words)
    if done.returncode != 0:
        return []
    # A line for each line of the file that has the key; a name may contain spaces.
    return done.stdout.decode(errors="replace").splitlines()


def _of_receipt(signature: Path) -> tuple[str, ...]:
    """Return the arguments that name the signature of a receipt."""
    return ("-n", NAMESPACE, "-s", str(signature))


def check_signers(file: Path) -> None:
    """Raise UsageError for a file of allowed signers that cannot be read."""
    try:
        file.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the file of signers {file}: {error.strerror}",
            "each line is: NAME PUBLIC_KEY; goal help receipts shows how to make it",
        ) from error


def _errors(done: subprocess.CompletedProcess[bytes]) -> str:
    return done.stderr.decode(errors="replace").strip()


def _last_line(done: subprocess.CompletedProcess[bytes]) -> str:
    lines: Sequence[str] = done.stdout.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _program() -> str:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise UsageError(
            "ssh-keygen is not on PATH, which makes and checks signatures",
            "install OpenSSH 8.1 or later: apt install openssh-client",
        )
    return program


def _ssh_keygen(
    *arguments: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(
            [_program(), *arguments],
            input=stdin,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        # It may wait for a passphrase, or for a touch of a hardware key.
        raise UsageError(
            f"ssh-keygen has not ended in {_PATIENCE:g} seconds",
            "ssh-add KEY, and --sign KEY.pub, for a key with a passphrase",
        ) from error
