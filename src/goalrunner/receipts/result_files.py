"""The files of a receipt: the document, its signature, and its other forms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from goalrunner.cli.result_file import ResultFile
from goalrunner.core.errors import UsageError
from goalrunner.receipts.pages import receipt_junit, receipt_markdown
from goalrunner.receipts.signing import check_key, sign_file, signature_of
from goalrunner.receipts.statement import Statement


@dataclass(frozen=True)
class ReceiptFiles:
    """The files that options name, opened before validators could redirect them."""

    receipt: ResultFile | None
    comment: ResultFile | None
    junit: ResultFile | None
    key: Path | None
    """The SSH key that signs the receipt."""

    @classmethod
    def of_options(
        cls,
        receipt: Path | None,
        *,
        comment: Path | None = None,
        junit: Path | None = None,
        key: Path | None = None,
        workspaces: Iterable[Path] = (),
    ) -> ReceiptFiles:
        """Check and open the files. Raise UsageError.

        The receipt may not lead out of the `workspaces` through a link.
        """
        if key is not None:
            if receipt is None:
                raise UsageError(
                    "--sign signs a file, and no file is named", "add -o receipt.json"
                )
            # The verification may take an hour; a wrong name is an error before.
            check_key(key)
        opened = cls(
            _receipt_file(receipt, workspaces),
            ResultFile(comment, option="--comment") if comment is not None else None,
            ResultFile(junit, option="--junit") if junit is not None else None,
            key,
        )
        if key is not None and opened.receipt is not None and opened.receipt.is_stream:
            raise UsageError(
                f"--sign signs a file, and {receipt} is a stream", "add -o receipt.json"
            )
        return opened

    @property
    def paths(self) -> list[Path]:
        """The files, with that of the signature."""
        opened = (self.receipt, self.comment, self.junit)
        paths = [file.path for file in opened if file is not None]
        if self.receipt is not None and self.key is not None:
            paths.append(signature_of(self.receipt.path))
        return paths

    def write(self, statement: Statement) -> None:
        """Write all files. Raise GoalError."""
        predicate = statement.predicate
        if self.receipt is not None:
            self.receipt.write(statement.json_text())
            # It signs the bytes of the file, so the file is written first.
            if self.key is not None:
                sign_file(self.receipt.path, self.key)
        if self.comment is not None:
            self.comment.write(receipt_markdown(predicate))
        if self.junit is not None:
            self.junit.write(receipt_junit(predicate))


def _receipt_file(path: Path | None, workspaces: Iterable[Path]) -> ResultFile | None:
    return None if path is None else ResultFile(path, workspaces=workspaces)
