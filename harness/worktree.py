"""Which code was it? The state of a git working tree, uncommitted and untracked files included, and the patch.

The user's repository is only read: index and objects are written to a temporary folder.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harness.record import Fact

FILE_CAP_BYTES = 1 << 20
TREE_CAP_BYTES = 64 << 20
"""Of all changed files together: a data set that nobody ignored is not code."""
PATCH_CAP_BYTES = 4 << 20
OMITTED_SHOWN = 100
TIMEOUT_S = 20
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"

SECRET_NAMES = re.compile(
    r"(^|/)(\.env(\..+)?|\.netrc|\.pgpass|\.pypirc|\.npmrc|\.git-credentials|id_(rsa|dsa|ecdsa|ed25519)"
    r"|[^/]*(secret|credential|password|token(?!iz))s?[^/]*\.(json|ya?ml|toml|ini|cfg|txt|env)"
    r"|[^/]*\.(pem|key|p12|pfx|jks|keystore|kdbx))$|(^|/)(\.ssh|\.aws|\.gnupg)/",
    re.IGNORECASE,
)
SECRET_CONTENT = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bgh[pousr]_[A-Za-z0-9]{30,}"
    rb"|\bgithub_pat_[A-Za-z0-9_]{30,}|\bhf_[A-Za-z0-9]{30,}|\bsk-[A-Za-z0-9_-]{32,}|\bxox[abprs]-[A-Za-z0-9-]{10,}|\bglpat-[A-Za-z0-9_-]{20,}"
)


@dataclass(frozen=True, kw_only=True)
class Tree:
    """A working tree as it was when a session began."""

    state: Literal["ok", "absent", "denied", "error"]
    reason: str = ""
    commit: str | None = None
    """None in a repository without commits."""
    tree_id: str | None = None
    """Git's id of the tree with all changes, except `omitted`; that of the commit's tree where nothing changed."""
    dirty: bool | None = None
    patch: str = ""
    """From the commit to the tree; empty where nothing changed or it is too large."""
    omitted: tuple[str, ...] = ()
    """Changed files that are neither in the id nor in the patch, each with the reason."""

    def facts(self) -> list[Fact]:
        """The tree as context facts of an environment."""
        if self.state != "ok":
            return [Fact(path=f"git.{name}", value=None, source="git", state=self.state) for name in ("commit", "tree")]
        commit = Fact(path="git.commit", value=self.commit, source="git", state="ok" if self.commit else "absent")
        texts = {
            "tree": self.tree_id or "",
            "dirty": "yes" if self.dirty else "no",
            "omitted": json.dumps(self.omitted),
            "patch": self.patch,
        }
        return [commit, *(Fact(path=f"git.{name}", value=text, source="git") for name, text in texts.items())]


def describe_tree(folder: Path) -> Tree:
    """The state of the working tree that `folder` lies in; state "absent" where there is no git or no repository."""
    if shutil.which("git") is None:
        return Tree(state="absent", reason="git is not installed")
    try:
        with tempfile.TemporaryDirectory(prefix="tree-") as scratch:
            return _describe(Git(folder, Path(scratch)))
    except subprocess.TimeoutExpired:
        return Tree(state="error", reason=f"git took longer than {TIMEOUT_S} s")
    except GitError as error:
        if "not a git repository" in error.message:
            return Tree(state="absent", reason="not a git repository")
        state: Literal["denied", "error"] = "denied" if "dubious ownership" in error.message else "error"
        return Tree(state=state, reason=error.message)
    except OSError as error:
        return Tree(state="error", reason=str(error))


class GitError(Exception):
    """Git refused: its own words, in one line."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Git:
    """Git commands on one repository, with an index and an object folder of their own."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        self._environment |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1"}
        self._folder = folder
        self.root = Path(self.run("rev-parse", "--show-toplevel").strip())
        self._folder = self.root
        objects, index = (
            self.root / self.run("rev-parse", "--git-path", name).strip() for name in ("objects", "index")
        )
        if index.exists():  # its notes of what is unchanged save reading every file again
            shutil.copyfile(index, scratch / "index")
        (scratch / "objects").mkdir()
        self._environment |= {
            "GIT_INDEX_FILE": str(scratch / "index"),
            "GIT_OBJECT_DIRECTORY": str(scratch / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(objects),
        }

    def run(self, *arguments: str, given: bytes = b"") -> str:
        """Standard output of a git command; raises GitError."""
        quiet = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.untrackedCache=false")
        result = subprocess.run(
            ["git", *quiet, *arguments], cwd=self._folder, env=self._environment, input=given, capture_output=True,
            timeout=TIMEOUT_S, check=False,
        )  # fmt: skip
        if result.returncode != 0:
            lines = result.stderr.decode(errors="replace").splitlines()
            raise GitError(lines[0] if lines else f"git {arguments[0]} ended with {result.returncode}")
        return result.stdout.decode("utf-8", "surrogateescape")


def _describe(git: Git) -> Tree:
    commit, base = _head(git)
    kept, omitted = _sort_out(git.root, _changed(git))
    if omitted:  # they may be staged
        take_out = ("reset", "-q") if commit else ("rm", "-q", "-f", "--cached", "--ignore-unmatch")
        git.run(*take_out, "--pathspec-from-file=-", "--pathspec-file-nul", given=_listed(omitted))
    if kept:
        git.run("add", "-A", "-f", "--pathspec-from-file=-", "--pathspec-file-nul", given=_listed(kept))
    tree_id = git.run("write-tree").strip()
    patch = git.run("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--binary", base, tree_id)
    if len(patch) > PATCH_CAP_BYTES:
        omitted["(the patch)"] = f"{len(patch) / 1e6:.1f} MB, over the limit of {PATCH_CAP_BYTES / 1e6:.1f} MB"
        patch = ""
    if SECRET_CONTENT.search(patch.encode("utf-8", "surrogateescape")):
        patch, omitted["(the patch)"] = "", "a line that was taken out looks like a secret"
    if any("\ud800" <= each <= "\udfff" for each in patch):  # it could not be stored as it is
        patch, omitted["(the patch)"] = "", "it holds text that is not UTF-8; the tree's id covers it"
    return Tree(
        state="ok",
        commit=commit,
        tree_id=tree_id,
        dirty=bool(kept or omitted),
        patch=patch,
        omitted=_in_words(omitted),
    )


def _sort_out(root: Path, paths: Iterable[str]) -> tuple[list[str], dict[str, str]]:
    """The changed files that count, and the others with the reason."""
    kept: list[str] = []
    omitted: dict[str, str] = {}
    bytes_so_far = 0
    for path in paths:
        reason = _why_omitted(root, path)
        if not reason:
            bytes_so_far += (root / path).lstat().st_size if os.path.lexists(root / path) else 0
            if bytes_so_far > TREE_CAP_BYTES:
                reason = f"after {TREE_CAP_BYTES} bytes of other changed files"
        if reason:
            omitted[path] = reason
        else:
            kept.append(path)
    return kept, omitted


def _in_words(omitted: Mapping[str, str]) -> tuple[str, ...]:
    lines = [f"{path}: {reason}" for path, reason in sorted(omitted.items())]
    more = len(lines) - OMITTED_SHOWN
    return (*lines[:OMITTED_SHOWN], *([f"and {more} more"] if more > 0 else []))


def _listed(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _head(git: Git) -> tuple[str | None, str]:
    """The commit, and the tree that the patch starts from."""
    try:
        commit = git.run("rev-parse", "--verify", "-q", "HEAD^{commit}").strip()
    except GitError:
        return None, EMPTY_TREE
    return commit, commit


def _changed(git: Git) -> Iterator[str]:
    """Paths that differ from the commit, staged or not, and untracked ones that are not ignored."""
    listing = git.run(
        "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all", "--ignore-submodules=none"
    )
    for entry in listing.split("\0"):
        if entry:
            yield entry[3:]


def _why_omitted(root: Path, path: str) -> str:
    """The reason to leave a changed file out of the id and the patch; empty to keep it."""
    if SECRET_NAMES.search(path):
        return "looks like a secret by its name"
    file = root / path
    if file.is_symlink() or not file.exists():
        return ""
    if file.is_dir():
        return "a repository of its own"
    if not file.is_file():
        return "not a regular file"
    size = file.stat().st_size
    if size > FILE_CAP_BYTES:
        return f"{size} bytes, over the limit of {FILE_CAP_BYTES}"
    try:
        content = file.read_bytes()
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return "looks like a secret by its content" if SECRET_CONTENT.search(content) else ""
