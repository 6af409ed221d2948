"""Signatures of receipts, made and checked with the real ssh-keygen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from goalrunner.core.errors import UsageError
from goalrunner.receipts.signing import (
    check_key,
    sign_file,
    signature_of,
    verify_signature,
)

pytestmark = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="needs OpenSSH"
)


@pytest.fixture
def receipt(tmp_path: Path) -> Path:
    path = tmp_path / "receipt.json"
    path.write_text("{}\n")
    return path


def make_key(folder: Path, name: str = "key", passphrase: str = "") -> Path:
    path = folder / name
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True
    )
    return path


def allow(key: Path) -> Path:
    """A file in which `me@example.org` may sign with this key."""
    path = key.with_name("allowed_signers")
    public = key.with_name(f"{key.name}.pub").read_text()
    path.write_text(f"me@example.org {public}")
    return path


def test_a_signature_names_its_signer(receipt: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path)

    signature = sign_file(receipt, key)

    assert signature == signature_of(receipt)
    assert verify_signature(receipt, signature, allow(key)).identity == "me@example.org"
    assert "ED25519" in verify_signature(receipt, signature, None).key


def test_a_second_signature_replaces_the_first(receipt: Path, tmp_path: Path) -> None:
    sign_file(receipt, make_key(tmp_path))
    other = make_key(tmp_path, "other")

    signature = sign_file(receipt, other)

    assert verify_signature(receipt, signature, allow(other)).identity


def test_a_changed_receipt_is_refused(receipt: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    signature = sign_file(receipt, key)
    receipt.write_text('{"result": "complete"}\n')

    for signers in (None, allow(key)):
        with pytest.raises(UsageError, match="does not fit"):
            verify_signature(receipt, signature, signers)


def test_another_signer_has_no_identity(receipt: Path, tmp_path: Path) -> None:
    signature = sign_file(receipt, make_key(tmp_path))
    signers = allow(make_key(tmp_path, "other"))

    assert verify_signature(receipt, signature, signers).identity == ""


def test_a_key_that_may_sign_other_files_alone_is_refused(
    receipt: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path)
    signers = allow(key)
    line = signers.read_text()
    signers.write_text(line.replace(" ", ' namespaces="git" ', 1))

    with pytest.raises(UsageError, match="may not sign receipts") as raised:
        verify_signature(receipt, sign_file(receipt, key), signers)

    assert 'namespaces="goal-receipt"' in str(raised.value.hint)


def test_a_signature_of_another_kind_is_refused(receipt: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    subprocess.run(
        ["ssh-keygen", "-q", "-Y", "sign", "-f", key, "-n", "git", receipt], check=True
    )

    with pytest.raises(UsageError, match="does not fit"):
        verify_signature(receipt, signature_of(receipt), allow(key))


def test_a_text_that_is_no_signature_is_refused(receipt: Path, tmp_path: Path) -> None:
    signature_of(receipt).write_text("signed, honestly\n")

    for signers in (None, allow(make_key(tmp_path))):
        with pytest.raises(UsageError):
            verify_signature(receipt, signature_of(receipt), signers)


def test_a_key_that_cannot_sign_is_an_error(receipt: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        check_key(tmp_path / "missing")
    key = make_key(tmp_path, passphrase="secret")
    with pytest.raises(UsageError, match="could not be signed"):
        sign_file(receipt, key)


def test_the_name_of_a_signer_may_have_spaces(receipt: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path)
    signature = sign_file(receipt, key)
    signers = tmp_path / "signers"
    signers.write_text(f'"Ada Lovelace" {key.with_suffix(".pub").read_text()}')

    assert verify_signature(receipt, signature, signers).identity == "Ada Lovelace"


def test_a_key_that_is_no_longer_valid_has_no_identity(
    receipt: Path, tmp_path: Path
) -> None:
    key = make_key(tmp_path)
    signature = sign_file(receipt, key)
    signers = tmp_path / "signers"
    public = key.with_suffix(".pub").read_text()
    signers.write_text(f'ada@x valid-before="20200101" {public}')

    assert verify_signature(receipt, signature, signers).identity == ""
