"""The text data: statistics worth learning, blocks and masked documents, and the user's own text."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.spec import UsageError
from harness.workloads.data import text, text_generator

BLOCKS = {"items": 64, "batch": 8, "sequence_length": 32, "vocabulary": 1000}
WORDS = "the quick brown fox jumps over the lazy dog and runs away from all the other dogs"


def entropy(values: np.ndarray) -> float:
    _, counts = np.unique(values, return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def documents(cache: Path, items: int = 400, length: int = 64) -> text.MaskedDocuments:
    data = text.prepare_documents(cache, None, 0, **{**BLOCKS, "items": items, "sequence_length": length})
    assert data.items == items
    return text.documents_dataset(Path(data.folder), "train", 5, sequence_length=length)


# ------------------------------------------------------------------------------------------------ statistics


def test_words_follow_zipfs_law() -> None:
    shares = text_generator.frequencies(1000)
    words = text_generator.draw_words(0, 1000, 200_000)
    counts = np.bincount(words, minlength=1000) / len(words)
    assert counts[:10].sum() == pytest.approx(shares[:10].sum(), rel=0.5)
    ranked = np.sort(counts)[::-1]
    slope = np.polyfit(np.log(np.arange(10, 200)), np.log(ranked[10:200]), 1)[0]
    assert -1.4 < slope < -0.7
    assert (counts > 0).mean() > 0.7, "the tail occurs too"


def test_a_word_tells_much_about_the_next() -> None:
    words = text_generator.draw_words(0, 1000, 200_000)
    alone = entropy(words)
    after_another = entropy(words[:-1] * 1000 + words[1:]) - entropy(words[:-1])
    assert alone > 4.5
    assert after_another < alone - 1.5


def test_documents_vary_in_length_and_fill_the_stream() -> None:
    ends = text_generator.draw_ends(0, 500, 500 * 40)
    lengths = np.diff(ends, prepend=0)
    assert ends[-1] == 500 * 40
    assert lengths.min() >= 4
    assert lengths.std() > 10


@pytest.mark.parametrize(("vocabulary", "dtype"), [(1000, np.uint16), (65536, np.uint16), (65537, np.uint32)])
def test_tokens_take_no_more_room_than_they_need(vocabulary: int, dtype: type, tmp_path: Path) -> None:
    data = text.prepare_blocks(tmp_path, None, 0, **{**BLOCKS, "vocabulary": vocabulary})
    corpus = text.open_corpus(Path(data.folder))
    assert corpus.tokens.dtype == dtype
    assert isinstance(corpus.tokens, np.memmap)
    assert corpus.tokens.max() < vocabulary


# ------------------------------------------------------------------------------------------------ blocks


def test_labels_are_the_tokens_one_further_on(cache: Path) -> None:
    data = text.prepare_blocks(cache, None, 0, **BLOCKS)
    dataset = text.blocks_dataset(Path(data.folder), "train", 0, sequence_length=32)
    assert len(dataset) == data.items == 64
    first, second = dataset[0], dataset[1]
    assert first["input_ids"].shape == first["labels"].shape == (32,)
    assert torch.equal(first["input_ids"][1:], first["labels"][:-1])
    assert first["labels"][-1] == second["input_ids"][0]
    assert dataset[63]["labels"].shape == (32,)


@pytest.mark.parametrize("kind", ["blocks", "documents"])
def test_a_spawned_worker_opens_the_files_itself(kind: str, cache: Path) -> None:
    data = text.prepare_blocks(cache, None, 0, **BLOCKS)
    dataset: Any = getattr(text, f"{kind}_dataset")(Path(data.folder), "train", 0, sequence_length=32)
    pickled = pickle.dumps(dataset)
    assert len(pickled) < 1000
    assert torch.equal(pickle.loads(pickled)[3]["labels"], dataset[3]["labels"])


# ------------------------------------------------------------------------------------------------ masked documents


def test_a_document_stands_between_start_and_end_then_padding(cache: Path) -> None:
    dataset = documents(cache)
    for index in (0, 7, 399):
        item = dataset[index]
        length = int(item["attention_mask"].sum())
        assert item["attention_mask"].tolist() == [1] * length + [0] * (64 - length)
        assert item["input_ids"][0] == 1
        assert item["input_ids"][length - 1] == 2
        assert (item["input_ids"][length:] == 0).all()
        assert (item["labels"][length - 1 :] == -100).all()
        assert item["labels"][0] == -100
        start = int(dataset.corpus.ends[index - 1]) if index else 0
        written = min(int(dataset.corpus.ends[index]) - start, 63)  # its end token included
        assert length == written + 1


def test_a_good_part_of_the_batch_is_padding(cache: Path) -> None:
    masks = torch.stack([item["attention_mask"] for item in map(documents(cache).__getitem__, range(400))]).float()
    assert 0.2 < 1 - masks.mean() < 0.6
    assert masks.sum(1).std() > 8


def test_fifteen_percent_are_masked_as_bert_masks(cache: Path) -> None:
    dataset = documents(cache)
    masked = shown_as_mask = kept = words = 0
    for index in range(400):
        item = dataset[index]
        chosen = item["labels"] != -100
        assert chosen.any()
        words += int(item["attention_mask"].sum()) - 2
        masked += int(chosen.sum())
        shown_as_mask += int((item["input_ids"][chosen] == 3).sum())
        kept += int((item["input_ids"][chosen] == item["labels"][chosen]).sum())
        unmasked = item["attention_mask"].bool() & ~chosen
        assert (item["input_ids"][unmasked] != 3).all()
    assert masked / words == pytest.approx(0.15, abs=0.01)
    assert shown_as_mask / masked == pytest.approx(0.8, abs=0.04)
    assert kept / masked == pytest.approx(0.1, abs=0.03)


def test_masks_depend_on_seed_and_index_alone(cache: Path) -> None:
    dataset = documents(cache)
    once = dataset[4]
    dataset[5]
    torch.manual_seed(1)
    assert torch.equal(once["labels"], dataset[4]["labels"])
    other = text.MaskedDocuments(Path(dataset.folder), 64, seed=6)
    assert not torch.equal(once["labels"], other[4]["labels"])


def test_the_shortest_sequences_still_work(tmp_path: Path) -> None:
    dataset = documents(tmp_path, items=20, length=8)
    assert all((dataset[index]["labels"] != -100).any() for index in range(20))
    with pytest.raises(UsageError, match="sequence_length=7 is too short"):
        documents(tmp_path, length=7)


def test_too_few_items_for_a_batch(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there are 4 blocks of 32 tokens, less than one batch of 8; give items=8"):
        text.prepare_blocks(tmp_path, None, 0, **{**BLOCKS, "items": 4})


# ------------------------------------------------------------------------------------------------ the user's own


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A user's folder: a text of 40 paragraphs, and a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder = tmp_path / "mine"
    folder.mkdir()
    special = ["[PAD]", "[CLS]", "[SEP]", "[MASK]", "[UNK]"]
    vocabulary = {word: index for index, word in enumerate([*special, *sorted(set(WORDS.split()))])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "book.txt").write_text("\n\n".join(f"{WORDS}\n{WORDS}" for _ in range(40)))
    return folder


@pytest.mark.parametrize("file", ["", "book.txt"])
def test_a_users_text_becomes_blocks(file: str, source: Path) -> None:
    data = text.prepare_blocks(source.parent / "cache", source / file, 0, **BLOCKS)
    words = len(WORDS.split())
    assert data.items == (40 * (2 * words + 1) - 1) // 32, "two lines and an end token a paragraph"
    first = text.blocks_dataset(Path(data.folder), "train", 0, sequence_length=32)[0]
    assert first["input_ids"][:10].tolist() == first["labels"][words - 1 : words + 9].tolist(), "the line again"


def test_a_users_text_becomes_documents(source: Path) -> None:
    cache = source.parent / "cache"
    data = text.prepare_documents(cache, source, 0, **{**BLOCKS, "sequence_length": 64})
    item = text.documents_dataset(Path(data.folder), "train", 0, sequence_length=64)[39]
    assert data.items == 40
    assert int(item["attention_mask"].sum()) == 2 * len(WORDS.split()) + 2
    assert text.prepare_documents(cache, source, 0, **BLOCKS).digest == data.digest
    (source / "more.txt").write_text(WORDS)
    assert text.prepare_documents(cache, source, 0, **BLOCKS).digest != data.digest


def test_wrong_texts_are_refused_with_the_remedy(source: Path) -> None:
    def refused(message: str, prepare: Any = text.prepare_blocks, source: Path = source, **changes: Any) -> None:
        with pytest.raises(UsageError, match=message):
            prepare(source.parent / "cache", source, 0, **{**BLOCKS, **changes})

    refused("nowhere does not exist; give a .txt file", source=source / "nowhere")
    refused(r"tokenizer.json has 20 tokens, the model 10; give vocabulary=20", vocabulary=10)
    refused("there are 40 documents, less than one batch of 50; give a longer text", text.prepare_documents, batch=50)
    (source / "binary.txt").write_bytes(b"text \xff\xfe")
    refused(r"binary.txt cannot be read: no UTF-8 \(invalid start byte at byte 5\)")
    (source / "binary.txt").unlink()
    (source / "book.txt").write_text("\n \n")
    refused("book.txt: no text in it")
    (source / "book.txt").write_text(WORDS)
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["[HIDE]"] = tokenizer["model"]["vocab"].pop("[MASK]")
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    refused(r"the tokenizer of .* lacks one of \[PAD\] \[CLS\]", text.prepare_documents, batch=1)
    (source / "tokenizer.json").write_text("{")
    refused("tokenizer.json is no tokenizer of the package tokenizers")
    (source / "tokenizer.json").unlink()
    refused("has no tokenizer.json; save one there")
    (source / "book.txt").unlink()
    refused("has no .txt file")
