"""The state of a working tree: changes count, secrets stay out, and the user's repository is only read."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from harness import worktree
from harness.worktree import describe_tree
from tests.store.making import hashes


def git(folder: Path, *arguments: str) -> str:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@example.org",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@example.org",
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    git(folder, "init", "-q")
    (folder / "model.py").write_text("layers = 12\n")
    (folder / ".gitignore").write_text("*.log\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


def test_a_clean_tree_has_the_id_of_its_commit(repository: Path) -> None:
    tree = describe_tree(repository)
    assert tree.state == "ok"
    assert tree.commit == git(repository, "rev-parse", "HEAD")
    assert tree.tree_id == git(repository, "rev-parse", "HEAD^{tree}")
    assert (tree.dirty, tree.patch, tree.omitted) == (False, "", ())


def test_the_repository_is_only_read(repository: Path) -> None:
    (repository / "model.py").write_text("layers = 24\n")
    (repository / "new.py").write_text("new\n")
    os.utime(repository / ".gitignore", (1, 1))  # git itself would note this in its index
    before = hashes(repository)
    describe_tree(repository)
    assert hashes(repository) == before
    assert git(repository, "status", "--porcelain") == "M model.py\n?? new.py"


def test_every_kind_of_change_makes_another_id(repository: Path) -> None:
    seen = [describe_tree(repository).tree_id]
    (repository / "model.py").write_text("layers = 24\n")
    seen.append(describe_tree(repository).tree_id)
    (repository / "new name \u00e9.py").write_text("new\n")
    seen.append(describe_tree(repository).tree_id)
    (repository / "model.py").chmod(0o755)
    seen.append(describe_tree(repository).tree_id)
    (repository / "model.py").unlink()
    seen.append(describe_tree(repository).tree_id)
    (repository / "model.py").symlink_to("new.py")
    seen.append(describe_tree(repository).tree_id)
    assert len(set(seen)) == len(seen)


def test_two_trees_that_differ_in_an_untracked_file_differ(repository: Path) -> None:
    (repository / "new.py").write_text("1\n")
    one = describe_tree(repository)
    (repository / "new.py").write_text("2\n")
    other = describe_tree(repository)
    assert one.commit == other.commit
    assert one.tree_id != other.tree_id


def test_staged_or_not_is_the_same_tree(repository: Path) -> None:
    (repository / "model.py").write_text("layers = 24\n")
    (repository / "new.py").write_text("new\n")
    loose = describe_tree(repository)
    git(repository, "add", ".")
    assert describe_tree(repository) == loose


def test_the_patch_makes_the_tree_from_the_commit(repository: Path, tmp_path: Path) -> None:
    (repository / "model.py").write_text("layers = 24\n")
    (repository / "sub").mkdir()
    (repository / "sub/new.bin").write_bytes(bytes(range(256)))
    tree = describe_tree(repository / "sub")  # from within the tree, too
    copy = tmp_path / "copy"
    git(tmp_path, "clone", "-q", str(repository), str(copy))
    (tmp_path / "patch").write_text(tree.patch)
    git(copy, "apply", "--index", str(tmp_path / "patch"))
    assert git(copy, "write-tree") == tree.tree_id


def test_ignored_files_do_not_count(repository: Path) -> None:
    (repository / "run.log").write_text("noise")
    assert describe_tree(repository).dirty is False


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        (".env", "A=1", "by its name"),
        ("conf/.env.local", "A=1", "by its name"),
        ("server.pem", "hush", "by its name"),
        ("id_ed25519", "hush", "by its name"),
        ("my_credentials.json", "{}", "by its name"),
        (".aws/config", "hush", "by its name"),
        ("notes.txt", "-----BEGIN RSA PRIVATE KEY-----", "by its content"),
        ("train.py", "token = 'hf_" + "a" * 34 + "'", "by its content"),
        ("train.py", "token = 'ghp_" + "a" * 36 + "'", "by its content"),
        ("train.py", "key = 'AKIA" + "A" * 16 + "'", "by its content"),
    ],
)
@pytest.mark.parametrize("staged", [False, True])
def test_secrets_are_refused_and_named(repository: Path, name: str, text: str, reason: str, staged: bool) -> None:
    clean = describe_tree(repository)
    (repository / name).parent.mkdir(exist_ok=True)
    (repository / name).write_text(text)
    if staged:
        git(repository, "add", "-f", name)
    tree = describe_tree(repository)
    assert [line.split(":")[0] for line in tree.omitted] == [name]
    assert reason in tree.omitted[0]
    assert tree.tree_id == clean.tree_id
    assert tree.dirty
    assert text not in repr(tree.facts())


def test_a_patch_that_is_not_utf8_is_omitted_and_named(repository: Path) -> None:
    (repository / "latin1.txt").write_bytes("caf\u00e9".encode("latin-1"))
    tree = describe_tree(repository)
    assert tree.patch == ""
    assert "not UTF-8" in tree.omitted[0]
    (repository / "latin1.txt").write_bytes("caf\u00e8".encode("latin-1"))
    assert describe_tree(repository).tree_id != tree.tree_id
    "".join(fact.value or "" for fact in tree.facts()).encode()


def test_a_secret_that_was_taken_out_is_not_in_the_patch(repository: Path) -> None:
    token = "hf_" + "a" * 34
    (repository / "train.py").write_text(f"token = '{token}'\n")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "oops")
    (repository / "train.py").write_text("token = os.environ['HF_TOKEN']\n")
    tree = describe_tree(repository)
    assert tree.patch == ""
    assert "looks like a secret" in tree.omitted[0]
    assert token not in repr(tree.facts())


def test_large_files_and_large_patches_are_omitted_with_their_size(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (repository / "weights.bin").write_bytes(b"x" * (worktree.FILE_CAP_BYTES + 1))
    tree = describe_tree(repository)
    assert tree.omitted == (f"weights.bin: {worktree.FILE_CAP_BYTES + 1} bytes, over the limit of {1 << 20}",)
    (repository / "model.py").write_text("layers = 24\n")
    monkeypatch.setattr(worktree, "PATCH_CAP_BYTES", 20)
    tree = describe_tree(repository)
    assert tree.patch == ""
    assert any(line.startswith("(the patch): ") for line in tree.omitted)
    assert tree.tree_id != git(repository, "rev-parse", "HEAD^{tree}")


def test_a_forgotten_data_set_does_not_become_code(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worktree, "TREE_CAP_BYTES", 1000)
    (repository / "data").mkdir()
    for number in range(200):
        (repository / f"data/{number:03d}.txt").write_text("x" * 100)
    tree = describe_tree(repository)
    assert tree.omitted[0] == "data/010.txt: after 1000 bytes of other changed files"
    assert tree.omitted[-1] == "and 90 more"
    assert tree.patch.count("+++ b/data/") == 10


def test_a_tokenizer_is_no_secret(repository: Path) -> None:
    (repository / "tokenizer.json").write_text("{}")
    (repository / "tokenizer_config.json").write_text("{}")
    assert describe_tree(repository).omitted == ()


def test_another_repository_inside_is_named(repository: Path) -> None:
    (repository / "inner").mkdir()
    git(repository / "inner", "init", "-q")
    (repository / "inner/x.py").write_text("")
    git(repository / "inner", "add", ".")
    git(repository / "inner", "commit", "-q", "-m", "inner")
    assert describe_tree(repository).omitted == ("inner/: a repository of its own",)


def test_a_repository_without_commits_has_a_tree_and_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "a.py").write_text("a\n")
    (tmp_path / ".env").write_text("A=1")
    git(tmp_path, "add", "-f", ".")
    tree = describe_tree(tmp_path)
    assert (tree.state, tree.commit, tree.dirty) == ("ok", None, True)
    assert tree.omitted == (".env: looks like a secret by its name",)
    assert "a.py" in tree.patch
    facts = {fact.path: fact for fact in tree.facts()}
    assert facts["git.commit"].state == "absent"
    assert facts["git.tree"].value == tree.tree_id


def test_no_repository_and_no_git_are_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_tree(tmp_path).state == "absent"
    assert {fact.state for fact in describe_tree(tmp_path).facts()} == {"absent"}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert describe_tree(tmp_path).reason == "git is not installed"


def test_a_broken_repository_is_an_error_and_stops_nothing(repository: Path) -> None:
    (repository / ".git/index").write_bytes(b"broken")
    tree = describe_tree(repository)
    assert tree.state == "error"
    assert tree.reason
    assert {fact.state for fact in tree.facts()} == {"error"}


def test_variables_of_git_in_the_environment_mislead_nobody(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nowhere/index")
    assert describe_tree(repository).state == "ok"
