"""Draws JPEG files that cost a loader what ImageNet's do: their sizes, their entropy, and classes to be learnt.

A picture is a gradient in its class's colours, shapes, stripes at its class's angle, and natural (1/f) texture with
fine grain. The grain's strength varies, so file sizes spread around ImageNet's mean of about 110 kB.
"""

from __future__ import annotations

import colorsys
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

_SIZES = ((500, 375), (375, 500), (500, 333), (333, 500), (640, 480), (400, 300), (500, 500))
_SIZE_SHARES = (0.46, 0.18, 0.14, 0.06, 0.06, 0.05, 0.05)
_TEXTURE_SIDE = 1024
_SLOPES = (1.3, 1.1, 0.35)
"""Amplitude spectra 1/f^slope: two natural ones, and the fine grain."""

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Look:
    """What the pictures of one class have in common."""

    hue: float
    angle: float
    """Of the stripes, in radians."""
    frequency: float
    """Of the stripes, in cycles a pixel."""
    round_shapes: bool


def generate(folder: Path, seed: int, items: int, classes: int) -> int:
    """Write `items` JPEG files into class sub-folders, and give their number. The same seed draws the same pictures."""
    for label in range(classes):
        (folder / _class_name(label)).mkdir()
    textures = [_texture(np.random.default_rng((seed, 1, place)), slope) for place, slope in enumerate(_SLOPES)]

    def write(index: int) -> None:
        label = index % classes
        rng = np.random.default_rng((seed, 2, index))
        picture = draw(rng, _look(label, classes), textures)
        quality = int(rng.integers(86, 95))
        picture.save(folder / _class_name(label) / f"{index:06d}.jpg", quality=quality)

    # threads suffice: NumPy's array loops, the FFT and the JPEG encoder release the interpreter's lock
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        list(pool.map(write, range(items)))
    return items


def draw(rng: np.random.Generator, look: Look, textures: list[Floats]) -> Image.Image:
    """Draw one picture of a class."""
    width, height = _SIZES[rng.choice(len(_SIZES), p=_SIZE_SHARES)]
    width, height = width - int(rng.integers(0, 8)), height - int(rng.integers(0, 8))
    y, x = np.ogrid[:height, :width]
    x, y = x.astype(np.float32), y.astype(np.float32)
    picture = Image.fromarray(_gradient(rng, look, x / width, y / height))
    _draw_shapes(rng, look, picture)
    canvas = np.asarray(picture).astype(np.float32)
    canvas += _relief(rng, look, x, y, textures)[:, :, None]
    tint = _crop(rng, textures[1], height, width) * np.float32(rng.uniform(4, 14))
    canvas[:, :, 0] += tint
    canvas[:, :, 2] -= tint
    return Image.fromarray(np.clip(canvas, 0, 255, out=canvas).astype(np.uint8))


def _look(label: int, classes: int) -> Look:
    share = label / classes
    return Look(
        hue=share,
        angle=np.pi * (label * 0.618 % 1),
        frequency=0.02 + 0.06 * (label * 0.382 % 1),
        round_shapes=label % 2 == 0,
    )


def _gradient(rng: np.random.Generator, look: Look, x: Floats, y: Floats) -> NDArray[np.uint8]:
    """A slope between two of the class's colours, in a random direction."""
    start, end = (np.array(_colour(rng, look), dtype=np.float32) for _ in range(2))
    angle = rng.uniform(0, 2 * np.pi)
    along = np.float32(0.5) + (x - 0.5) * np.float32(np.cos(angle) / 2) + (y - 0.5) * np.float32(np.sin(angle) / 2)
    return (start + (end - start) * along[:, :, None]).astype(np.uint8)


def _draw_shapes(rng: np.random.Generator, look: Look, picture: Image.Image) -> None:
    pen = ImageDraw.Draw(picture)
    width, height = picture.size
    for _ in range(int(rng.integers(4, 12))):
        centre_x, centre_y = rng.uniform(0, width), rng.uniform(0, height)
        half_x, half_y = rng.uniform(0.03, 0.25, 2) * min(width, height)
        box = (centre_x - half_x, centre_y - half_y, centre_x + half_x, centre_y + half_y)
        if look.round_shapes:
            pen.ellipse(box, fill=_colour(rng, look))
        else:
            pen.rectangle(box, fill=_colour(rng, look))


def _relief(rng: np.random.Generator, look: Look, x: Floats, y: Floats, textures: list[Floats]) -> Floats:
    """What is added to the brightness of every pixel: stripes, natural texture and fine grain."""
    height, width = y.shape[0], x.shape[1]
    turn = np.float32(2 * np.pi * look.frequency)
    phase = x * (turn * np.float32(np.cos(look.angle))) + y * (turn * np.float32(np.sin(look.angle)))
    relief = np.sin(phase + np.float32(rng.uniform(0, 2 * np.pi)), dtype=np.float32)
    relief *= np.float32(rng.uniform(8, 20))
    relief += _crop(rng, textures[0], height, width) * np.float32(rng.uniform(15, 35))
    relief += _crop(rng, textures[2], height, width) * np.float32(min(rng.lognormal(3.0, 0.6), 60))
    return relief


def _colour(rng: np.random.Generator, look: Look) -> tuple[int, int, int]:
    hue = (look.hue + rng.normal(0, 0.04)) % 1
    red, green, blue = colorsys.hsv_to_rgb(hue, rng.uniform(0.3, 0.8), rng.uniform(0.25, 0.95))
    return int(red * 255), int(green * 255), int(blue * 255)


def _texture(rng: np.random.Generator, slope: float) -> Floats:
    """A square of noise with amplitude spectrum 1/f^slope, mean 0, standard deviation 1."""
    side = _TEXTURE_SIDE
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None, :])
    frequency[0, 0] = np.inf
    noise = rng.standard_normal((2, *frequency.shape))
    texture = np.fft.irfft2((noise[0] + 1j * noise[1]) / frequency**slope, (side, side))
    return (texture / texture.std()).astype(np.float32)


def _crop(rng: np.random.Generator, texture: Floats, height: int, width: int) -> Floats:
    """A random part of a texture, perhaps mirrored."""
    top, left = rng.integers(0, _TEXTURE_SIDE - height), rng.integers(0, _TEXTURE_SIDE - width)
    part: Floats = texture[top : top + height, left : left + width]
    return part[:: int(rng.choice((-1, 1))), :: int(rng.choice((-1, 1)))]


def _class_name(label: int) -> str:
    return f"class_{label:03d}"
