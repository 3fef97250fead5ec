"""Draws token streams whose statistics make a language model's work and learning real: Zipf's law, Markov structure.

Every token has a few favourite successors, so the next one is far better predicted from the one before than from
frequencies alone: a model that learns gets below the entropy of the single tokens.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_STREAM_LENGTH = 256
"""Streams of this length are drawn side by side, since a chain cannot be drawn at once."""
_ZIPF_EXPONENT, _ZIPF_SHIFT = 1.05, 2.7
_SUCCESSOR_SHARES = (0.45, 0.2, 0.1, 0.05)
"""How often each favourite follows; else the next token is drawn by frequency alone."""
_SHORTEST, _SPREAD = 8, 0.6
"""Of the documents: tokens, and the standard deviation of the length's logarithm."""

Ints = NDArray[np.int64]


def frequencies(words: int) -> NDArray[np.float64]:
    """The share of each word by its rank, after Zipf and Mandelbrot."""
    shares = 1.0 / (np.arange(words) + 1 + _ZIPF_SHIFT) ** _ZIPF_EXPONENT
    normalised: NDArray[np.float64] = shares / shares.sum()
    return normalised


def draw_words(seed: int, words: int, count: int) -> Ints:
    """Draw `count` word ranks (0 to words - 1) of a Markov chain whose single words follow Zipf's law closely."""
    rng = np.random.default_rng((seed, 1))
    cumulative = np.cumsum(frequencies(words))

    def by_frequency(*shape: int) -> Ints:
        return np.minimum(np.searchsorted(cumulative, rng.random(shape)), words - 1)

    favourites = by_frequency(words, len(_SUCCESSOR_SHARES))
    thresholds = np.cumsum(_SUCCESSOR_SHARES)
    streams = -(-count // _STREAM_LENGTH)
    chain = np.empty((_STREAM_LENGTH, streams), dtype=np.int64)
    chain[0] = by_frequency(streams)
    for step in range(1, _STREAM_LENGTH):
        choice = np.searchsorted(thresholds, rng.random(streams))
        free = choice == len(thresholds)
        followed = favourites[chain[step - 1], np.where(free, 0, choice)]
        chain[step] = np.where(free, by_frequency(streams), followed)
    return chain.T.reshape(-1)[:count]


def draw_ends(seed: int, documents: int, total: int) -> Ints:
    """Where each of the documents ends in a stream of `total` tokens: log-normal lengths, the last end at `total`."""
    rng = np.random.default_rng((seed, 2))
    lengths = _SHORTEST + rng.lognormal(0, _SPREAD, documents) * max(total / documents - _SHORTEST, 1)
    ends: Ints = np.rint(np.cumsum(lengths) * (total / lengths.sum())).astype(np.int64)
    return ends
