"""The text workloads' data: tokens made once from a seed, or the user's, as blocks, masked documents or prompts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.spec import DataRef, UsageError
from harness.workloads.data import cache as data_cache

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

GENERATOR_VERSION = 1
"""Part of the cache's folder name: raise it with any change to `text_generator` or to the files that alters a byte."""
MASKED_SHARE, KEPT_SHARE, RANDOM_SHARE = 0.15, 0.1, 0.1
"""BERT's: tokens to predict; and of these, left as they are or replaced by a random one instead of [MASK]."""
IGNORED = -100
"""The label of a position that is not to be predicted; cross_entropy leaves it out."""
_TOKENS, _ENDS, _VOCABULARY = "tokens.npy", "ends.npy", "vocabulary.json"
_PARAGRAPHS_AT_ONCE = 1000
SHORTEST_SEQUENCE = 8


@dataclass(frozen=True)
class Vocabulary:
    """How many token ids there are, and which are special (-1: the user's tokenizer has none)."""

    size: int
    pad: int = 0
    start: int = 1
    end: int = 2
    mask: int = 3
    first_word: int = 4
    """Ids from here on may stand in for a masked token."""

    @property
    def can_mask(self) -> bool:
        """Whether it has every token that masked documents need."""
        return min(self.pad, self.start, self.end, self.mask) >= 0


@dataclass(frozen=True)
class Corpus:
    """An opened token folder. Documents lie one after another, each closed by the end token where there is one."""

    tokens: NDArray[Any]
    ends: NDArray[np.int64]
    """Where each document ends in `tokens`, the end token included."""
    vocabulary: Vocabulary


# ------------------------------------------------------------------------------------------------ preparing


def prepare_blocks(
    cache: Path,
    source: Path | None,
    seed: int,
    *,
    items: int,
    batch: int,
    sequence_length: int,
    vocabulary: int,
    **_others: Any,
) -> DataRef:
    """Prepare tokens for blocks of one length: as many blocks as `items`, or all of the user's text."""
    warnings: tuple[str, ...] = ()
    if source is None:
        made = _generate(cache, seed, vocabulary, items, total=items * sequence_length + 1)
        blocks = items
    else:
        made, warnings = _tokenise_source(cache, source, vocabulary)
        blocks = _count_blocks(len(open_corpus(made.folder).tokens), sequence_length)
    _check_enough(blocks, batch, source, f"blocks of {sequence_length} tokens")
    return DataRef(str(made.folder), made.digest, blocks, warnings)


def prepare_documents(
    cache: Path, source: Path | None, seed: int, *, sequence_length: int, vocabulary: int, **sizes: Any
) -> DataRef:
    """Prepare documents of varying length to be masked: as many as `items`, or the user's."""
    if sequence_length < SHORTEST_SEQUENCE:
        raise UsageError(
            f"sequence_length={sequence_length} is too short for masked documents; give {SHORTEST_SEQUENCE} or more"
        )
    prepared = _prepare_documents(cache, source, seed, sequence_length, vocabulary, **sizes)
    _check_can_mask(prepared, source)
    return prepared


def prepare_masked_blocks(cache: Path, source: Path | None, seed: int, **sizes: Any) -> DataRef:
    """Prepare blocks of one length to be masked; the sizes are those of `prepare_blocks`."""
    prepared = prepare_blocks(cache, source, seed, **sizes)
    _check_can_mask(prepared, source)
    return prepared


def _check_can_mask(prepared: DataRef, source: Path | None) -> None:
    if source is not None and not _read_vocabulary(Path(prepared.folder)).can_mask:
        raise UsageError(f"the tokenizer of {source} lacks one of [PAD] [CLS] [SEP] [MASK]; masked text needs them all")


def prepare_prompts(
    cache: Path, source: Path | None, seed: int, *, prompt_length: int, vocabulary: int, **sizes: Any
) -> DataRef:
    """Prepare documents of varying length whose beginnings are prompts: as many as `items`, or the user's."""
    return _prepare_documents(cache, source, seed, prompt_length, vocabulary, **sizes)


def _prepare_documents(
    cache: Path, source: Path | None, seed: int, length: int, vocabulary: int, *, items: int, batch: int, **_others: Any
) -> DataRef:
    """Documents of about 5/8 of a length on average, or the paragraphs of the user's text."""
    warnings: tuple[str, ...] = ()
    if source is None:
        made = _generate(cache, seed, vocabulary, items, total=items * (length * 5 // 8))
    else:
        made, warnings = _tokenise_source(cache, source, vocabulary)
    _check_enough(made.items, batch, source, "documents")
    return DataRef(str(made.folder), made.digest, made.items, warnings)


def _generate(cache: Path, seed: int, vocabulary: int, documents: int, *, total: int) -> data_cache.Made:
    known = Vocabulary(vocabulary)

    def make(folder: Path) -> int:
        from harness.workloads.data import text_generator

        tokens = text_generator.draw_words(seed, known.size - known.first_word, total) + known.first_word
        ends = text_generator.draw_ends(seed, documents, total)
        tokens[ends - 1] = known.end
        _write_corpus(folder, tokens, ends, known)
        return documents

    return data_cache.make_once(cache, f"text-v{GENERATOR_VERSION}-seed{seed}-{vocabulary}-{documents}x{total}", make)


def _check_enough(items: int, batch: int, source: Path | None, what: str) -> None:
    if items < batch:
        remedy = "give a longer text" if source else f"give items={batch} or more"
        raise UsageError(f"there are {items} {what}, less than one batch of {batch}; {remedy} or a smaller batch")


def _tokenise_source(cache: Path, source: Path, vocabulary: int) -> tuple[data_cache.Made, tuple[str, ...]]:
    """Tokenise the user's text once, a .txt file or a folder of them with tokenizer.json beside: (folder, warnings)."""
    folder, texts = _find_texts(source)
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise UsageError("the user's own text needs the package tokenizers; pip install tokenizers") from error
    try:
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    except Exception as error:  # the package raises bare Exception for a file that it cannot read
        raise UsageError(f"{folder / 'tokenizer.json'} is no tokenizer of the package tokenizers: {error}") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    size = tokenizer.get_vocab_size()
    if size > vocabulary:
        raise UsageError(
            f"{folder / 'tokenizer.json'} has {size} tokens, the model {vocabulary}; give vocabulary={size}"
        )
    names = [*(path.relative_to(folder).as_posix() for path in texts), "tokenizer.json"]
    digest, warnings = data_cache.user_files_digest(cache, folder, names)
    known = _user_vocabulary(tokenizer, size)
    made = data_cache.make_once(
        cache, f"text-user-v{GENERATOR_VERSION}-{digest[:32]}", lambda made: _tokenise(made, texts, tokenizer, known)
    )
    return made, warnings


def _find_texts(source: Path) -> tuple[Path, list[Path]]:
    if not source.exists():
        raise UsageError(
            f"data {source} does not exist; give a .txt file or a folder of them, with tokenizer.json beside"
        )
    folder = source if source.is_dir() else source.parent
    texts = sorted(source.rglob("*.txt")) if source.is_dir() else [source]
    if not texts:
        raise UsageError(f"data folder {source} has no .txt file; give a .txt file or a folder of them")
    if not (folder / "tokenizer.json").is_file():
        raise UsageError(
            f"{folder} has no tokenizer.json; save one there with the package tokenizers (or transformers)"
        )
    return folder, texts


def _user_vocabulary(tokenizer: Any, size: int) -> Vocabulary:
    def first(*names: str) -> int:
        return next((token for name in names if (token := tokenizer.token_to_id(name)) is not None), -1)

    return Vocabulary(
        size=size,
        pad=first("[PAD]", "<pad>"),
        start=first("[CLS]", "<s>"),
        end=first("[SEP]", "</s>", "<|endoftext|>"),
        mask=first("[MASK]", "<mask>"),
        first_word=0,
    )


def _tokenise(folder: Path, texts: list[Path], tokenizer: Any, known: Vocabulary) -> int:
    """Write the corpus of the texts, whose documents are their paragraphs, and give the number of documents."""
    import numpy as np

    documents: list[NDArray[Any]] = []
    closing = [known.end] if known.end >= 0 else []
    for paragraphs in _paragraphs(texts):
        for encoding in tokenizer.encode_batch(paragraphs, add_special_tokens=False):
            if encoding.ids:
                documents.append(np.array(encoding.ids + closing, dtype=np.uint32))
    if not documents:
        raise UsageError(f"{texts[0]}{' and the others' if len(texts) > 1 else ''}: no text in it; give one with words")
    ends = np.cumsum([len(document) for document in documents])
    _write_corpus(folder, np.concatenate(documents), ends, known)
    return len(documents)


def _paragraphs(texts: list[Path]) -> Iterator[list[str]]:
    """The paragraphs (between blank lines) of the texts, many at a time."""
    gathered: list[str] = []
    for path in texts:
        lines: list[str] = []
        for line in chain(_lines(path), [""]):
            if line.strip():
                lines.append(line)
                continue
            if lines:
                gathered.append("".join(lines).strip())
                lines = []
            if len(gathered) >= _PARAGRAPHS_AT_ONCE:
                yield gathered
                gathered = []
    if gathered:
        yield gathered


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open(encoding="utf-8") as file:
            yield from file
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"no UTF-8 ({error.reason} at byte {error.start})"
        raise UsageError(f"{path} cannot be read: {reason}; give readable UTF-8 text") from error


# ------------------------------------------------------------------------------------------------ the files


def open_corpus(folder: Path) -> Corpus:
    """Open a token folder without reading it: the tokens stay on disk until they are asked for."""
    import numpy as np

    return Corpus(
        tokens=np.load(folder / _TOKENS, mmap_mode="r"),
        ends=np.load(folder / _ENDS),
        vocabulary=_read_vocabulary(folder),
    )


def _read_vocabulary(folder: Path) -> Vocabulary:
    return Vocabulary(**json.loads((folder / _VOCABULARY).read_text()))


def _write_corpus(folder: Path, tokens: NDArray[Any], ends: NDArray[np.int64], vocabulary: Vocabulary) -> None:
    import numpy as np

    np.save(folder / _TOKENS, tokens.astype(np.uint16 if vocabulary.size <= 1 << 16 else np.uint32))
    np.save(folder / _ENDS, ends.astype(np.int64))
    (folder / _VOCABULARY).write_text(json.dumps(asdict(vocabulary)))


def _count_blocks(tokens: int, sequence_length: int) -> int:
    """Blocks that fit, each followed by the token that its last one is to predict."""
    return (tokens - 1) // sequence_length


# ------------------------------------------------------------------------------------------------ reading


class Blocks:
    """A map-style dataset of token blocks: input_ids [L], and labels [L], which are the tokens one further on."""

    def __init__(self, folder: Path, sequence_length: int) -> None:
        self.folder = folder
        self.corpus = open_corpus(folder)
        self.sequence_length = sequence_length

    def __reduce__(self) -> tuple[Any, ...]:
        # a spawned loader worker opens the files itself instead of being sent their contents
        return Blocks, (self.folder, self.sequence_length)

    def __len__(self) -> int:
        return _count_blocks(len(self.corpus.tokens), self.sequence_length)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        import numpy as np
        import torch

        start = index * self.sequence_length
        tokens = torch.from_numpy(self.corpus.tokens[start : start + self.sequence_length + 1].astype(np.int64))
        return {"input_ids": tokens[:-1], "labels": tokens[1:]}


class MaskedBlocks:
    """A map-style dataset of token blocks for masked language modelling, without padding: input_ids and labels [L].

    Which tokens are masked depends on (seed, index) alone.
    """

    def __init__(self, folder: Path, sequence_length: int, seed: int) -> None:
        self.blocks = Blocks(folder, sequence_length)
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        # as for blocks
        return MaskedBlocks, (self.blocks.folder, self.blocks.sequence_length, self.seed)

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        import numpy as np
        import torch

        words = self.blocks[index]["input_ids"].numpy()
        rng = np.random.default_rng((self.seed, index))
        shown, labels = mask_words(rng, words, self.blocks.corpus.vocabulary)
        return {"input_ids": torch.from_numpy(shown), "labels": torch.from_numpy(labels)}


class MaskedDocuments:
    """A map-style dataset of documents for masked language modelling, padded to one length.

    Gives input_ids, attention_mask and labels, each int64 [L]. Which tokens are masked depends on (seed, index) alone;
    at least one is.
    """

    def __init__(self, folder: Path, sequence_length: int, seed: int) -> None:
        self.folder = folder
        self.corpus = open_corpus(folder)
        self.sequence_length = sequence_length
        self.seed = seed

    def __reduce__(self) -> tuple[Any, ...]:
        # as for blocks
        return MaskedDocuments, (self.folder, self.sequence_length, self.seed)

    def __len__(self) -> int:
        return len(self.corpus.ends)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        import numpy as np
        import torch

        known, words = self.corpus.vocabulary, self._words(index)
        shown, labels = mask_words(np.random.default_rng((self.seed, index)), words, known)
        length = len(words) + 2
        input_ids = np.full(self.sequence_length, known.pad, dtype=np.int64)
        input_ids[:length] = [known.start, *shown, known.end]
        all_labels = np.full(self.sequence_length, IGNORED, dtype=np.int64)
        all_labels[1 : length - 1] = labels
        attention_mask = (np.arange(self.sequence_length) < length).astype(np.int64)
        arrays = {"input_ids": input_ids, "attention_mask": attention_mask, "labels": all_labels}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def _words(self, index: int) -> NDArray[np.int64]:
        """A document without its end token, cut so that start and end fit around it."""
        import numpy as np

        start = int(self.corpus.ends[index - 1]) if index else 0
        end = min(int(self.corpus.ends[index]) - 1, start + self.sequence_length - 2)
        return self.corpus.tokens[start:end].astype(np.int64)


class Prompts:
    """A map-style dataset of prompts, padded on the left to one length, with room for what is to be written.

    Gives input_ids [prompt_length], and the finished text's attention_mask [prompt_length + new_tokens], both int64.
    """

    def __init__(self, folder: Path, prompt_length: int, new_tokens: int) -> None:
        self.folder = folder
        self.corpus = open_corpus(folder)
        self.prompt_length, self.new_tokens = prompt_length, new_tokens

    def __reduce__(self) -> tuple[Any, ...]:
        # as for blocks
        return Prompts, (self.folder, self.prompt_length, self.new_tokens)

    def __len__(self) -> int:
        return len(self.corpus.ends)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        import numpy as np
        import torch

        start = int(self.corpus.ends[index - 1]) if index else 0
        words = self.corpus.tokens[start : int(self.corpus.ends[index])][: self.prompt_length].astype(np.int64)
        input_ids = np.full(self.prompt_length, max(0, self.corpus.vocabulary.pad), dtype=np.int64)
        input_ids[self.prompt_length - len(words) :] = words
        attention_mask = np.ones(self.prompt_length + self.new_tokens, dtype=np.int64)
        attention_mask[: self.prompt_length - len(words)] = 0
        return {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}


def mask_words(
    rng: np.random.Generator, words: NDArray[np.int64], vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Choose 15 % of the words to be predicted, as BERT does: (what the model sees, labels)."""
    import numpy as np

    count = max(1, round(MASKED_SHARE * len(words)))
    chosen = rng.choice(len(words), count, replace=False)
    labels = np.full(len(words), IGNORED, dtype=np.int64)
    labels[chosen] = words[chosen]
    fate = rng.random(count)
    stand_in = np.where(
        fate < RANDOM_SHARE, rng.integers(vocabulary.first_word, vocabulary.size, count), vocabulary.mask
    )
    shown = words.copy()
    shown[chosen] = np.where(fate >= 1 - KEPT_SHARE, words[chosen], stand_in)
    return shown, labels


def blocks_dataset(folder: Path, mode: str, seed: int, *, sequence_length: int, **_others: Any) -> Blocks:
    """Open a prepared folder for a causal language model; the data are the same in every mode."""
    return Blocks(folder, sequence_length)


def documents_dataset(folder: Path, mode: str, seed: int, *, sequence_length: int, **_others: Any) -> MaskedDocuments:
    """Open a prepared folder for a masked language model; the data are the same in every mode."""
    return MaskedDocuments(folder, sequence_length, seed)


def masked_blocks_dataset(folder: Path, mode: str, seed: int, *, sequence_length: int, **_others: Any) -> MaskedBlocks:
    """Open a prepared folder for a masked language model that takes no padding."""
    return MaskedBlocks(folder, sequence_length, seed)


def prompts_dataset(
    folder: Path, mode: str, seed: int, *, prompt_length: int, new_tokens: int, **_others: Any
) -> Prompts:
    """Open a prepared folder for a language model that goes on from prompts."""
    return Prompts(folder, prompt_length, new_tokens)


def count_tokens(batch: Mapping[str, torch.Tensor]) -> int:
    """The tokens in a batch, padding left out."""
    mask = batch.get("attention_mask")
    return int(mask.sum()) if mask is not None else batch["input_ids"].numel()
