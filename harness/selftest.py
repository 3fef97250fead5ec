"""The statistics' own validation: every stated error rate, measured by simulation with the code that judges.

`selftest()` returns the table of figures with bound, value reached, repetitions and Monte-Carlo standard error. A
figure passes when it is not worse than its bound by more than 3 standard errors; bounds are typed, tolerances never.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from harness.judge import WindowTable, judge
from harness.judge.estimate import Floats, estimate, half_width
from harness.judge.types import Comparison
from harness.judge.verdict import ABOVE, BELOW, EQUIVALENT
from harness.record import TrialRecord
from harness.simulate import PROFILES, Noise, Stopped, autoregressive, draw, run_sequences, simulate
from harness.spec import Analysis, Experiment
from harness.steady import Bools, Ints, find_steady_batch

Records = Sequence[TrialRecord]
Windows = Mapping[str, WindowTable]

TOLERANCE = 3.0
"""In Monte-Carlo standard errors."""
FIXED_PROCESSES = 20
"""What a design without looks is given for each arm, to compare with."""
BASE, NOISY = PROFILES["base"], PROFILES["noisy"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One stated figure and what was reached."""

    number: int
    name: str
    bound: float
    side: Literal["at most", "at least"]
    reached: float
    standard_error: float
    repetitions: int
    unit: str = ""

    @property
    def passed(self) -> bool:
        slack = TOLERANCE * self.standard_error
        return self.reached <= self.bound + slack if self.side == "at most" else self.reached >= self.bound - slack


@dataclass(frozen=True)
class Size:
    """How much is simulated."""

    experiments: int
    families: int
    grid: Literal["quick", "full"]


QUICK, FULL = Size(3000, 800, "quick"), Size(10_000, 4000, "full")


def selftest(full: bool = False, seed: int = 20260101) -> list[Figure]:
    """Run all figures; at most a minute on two cores, the whole grid with `full` some twenty times that."""
    size = FULL if full else QUICK
    return [figure for make in FIGURES for figure in make(np.random.default_rng([seed, FIGURES.index(make)]), size)]


def as_markdown(figures: Sequence[Figure]) -> str:
    """The table as docs/measurement.md shows it."""
    rows = ["| # | figure | bound | reached | standard error | repetitions |", "| --- | --- | --- | --- | --- | --- |"]
    for each in figures:
        bound = f"{each.side} {each.bound:g}"
        mark = "" if each.passed else " **missed**"
        rows.append(
            f"| {each.number} | {each.name} | {bound} | {each.reached:.4g}{mark} "
            f"| {each.standard_error:.2g} | {each.repetitions} |"
        )
    return "\n".join(rows) + "\n"


def share(number: int, name: str, bound: float, side: Literal["at most", "at least"], hits: Floats) -> Figure:
    """A figure that is the share of repetitions in which something happened; its error is the binomial one."""
    reached = float(np.mean(hits))
    # at 0 or 1 the plain formula gives no error at all; the bound's own is what a pass has to be measured by
    spread = max(reached * (1 - reached), bound * (1 - bound) if reached in (0.0, 1.0) else 0.0)
    return Figure(
        number=number, name=name, bound=bound, side=side, reached=reached,
        standard_error=math.sqrt(spread / hits.size), repetitions=int(hits.size), unit="share",
    )  # fmt: skip


def average(number: int, name: str, bound: float, values: Floats, unit: str, magnitude: bool = False) -> Figure:
    """A figure that is a mean, or the size of a mean (a bias), at most its bound."""
    reached = float(np.mean(values))
    return Figure(
        number=number, name=name, bound=bound, side="at most", reached=abs(reached) if magnitude else reached,
        standard_error=float(np.std(values, ddof=1)) / math.sqrt(values.size), repetitions=int(values.size), unit=unit,
    )  # fmt: skip


# ------------------------------------------------------------------------------------------------ 1, 2, 7: estimates


def coverage(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 1: coverage of the 95 % interval at fixed numbers of blocks, the worst over the grid; and at the stop."""
    worst: dict[tuple[int, str], tuple[Floats, str]] = {}
    for noise, louder, name in _grid(size):
        for blocks in (4, 6, 8, 12, 20, 28):
            drawn = draw(rng, noise, experiments=size.experiments, blocks=blocks, windows=15, louder=louder)
            of = estimate(drawn.differences(), drawn.order())
            covered = (np.abs(of.center) <= half_width(of, 0.05)).astype(np.float64)
            sides = ["at least"] + (["at most"] if blocks >= 6 or noise.slot == 0 else [])
            for side in sides:
                sign = 1 if side == "at least" else -1
                known = worst.get((blocks, side))
                if known is None or sign * covered.mean() < sign * known[0].mean():
                    worst[(blocks, side)] = (covered, name)
    for (blocks, side), (covered, name) in worst.items():
        bound = 0.93 if side == "at least" else 0.97
        word = "lowest" if side == "at least" else "highest"
        yield share(1, f"{word} coverage at {blocks} blocks ({name})", bound, side, covered)  # type: ignore[arg-type]
    for effect in (0.0, 0.01, 0.02, 0.05):
        stopped = _sequences(rng, replace(BASE, drift=0.06), size.experiments, effect)
        covered = (np.abs(stopped.center - effect) <= stopped.half_width).astype(np.float64)
        yield share(1, f"coverage at the stop, true {effect:+.0%}", 0.94, "at least", covered)


def _grid(size: Size) -> Iterator[tuple[Noise, Floats | None, str]]:
    """The conditions of figure 1: all of them, or the corners and the middle."""
    rhos, drifts, spikes, slots, loud = (0.0, 0.7, 0.95), (0.0, 0.02, 0.06), (0.0, 0.05), (0.0, 0.01), (1.0, 3.0)
    every = list(itertools.product(rhos, drifts, spikes, slots, loud))
    chosen = every if size.grid == "full" else [every[0], every[27], every[-1], every[-4], every[38], every[12]]
    for rho, drift, spike, slot, factor in chosen:
        noise = replace(BASE, autocorrelation=rho, drift=drift, spike_rate=spike, slot=slot)
        name = f"AR {rho}, drift {drift:.0%}, spikes {spike:.0%}, slot {slot:.0%}, one arm x{factor:.0f}"
        yield noise, None if factor == 1 else np.array([factor]), name


def false_positives(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 2: claims of a difference between two arms that are the same."""
    for profile in ("quiet", "base", "noisy"):
        noise = PROFILES[profile]
        drawn = draw(rng, noise, experiments=size.experiments, blocks=10, windows=15)
        of = estimate(drawn.differences(), drawn.order())
        claimed = (np.abs(of.center) > half_width(of, 0.05)).astype(np.float64)
        yield share(2, f"A/A, 10 blocks, {profile}", 0.05, "at most", claimed)
        stopped = _sequences(rng, noise, size.experiments, 0.0)
        yield share(2, f"A/A, sequential, {profile}", 0.05, "at most", _differs(stopped).astype(np.float64))


def bias(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 7: what drift and slot effects leave in the estimate."""
    for name, noise in (
        ("6 % drift", replace(BASE, drift=0.06)),
        ("6 % drift and 1 % slot effect", replace(BASE, drift=0.06, slot=0.01)),
        ("1 % slot effect", replace(BASE, slot=0.01)),
    ):
        drawn = draw(rng, noise, experiments=size.experiments, blocks=12, windows=15)
        of = estimate(drawn.differences(), drawn.order())
        yield average(7, f"bias from {name}", 0.0005, of.center, "of the time", magnitude=True)


# ------------------------------------------------------------------------------------------------ 3-6: verdicts


def families(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 3: any false claim in a family of A/A comparisons that share their baselines."""
    for cells, repetitions in ((20, 2 * size.families), (100, size.families // 2)):
        hits = []
        for _ in range(0, repetitions, 100):
            drawn = draw(rng, BASE, experiments=min(100, repetitions), blocks=28, treated=cells, windows=5)
            hits.append(_differs(run_sequences(drawn.differences(), drawn.order(), Analysis())).any(axis=1))
        yield share(
            3, f"any false claim in {cells} A/A cells", 0.05, "at most", np.concatenate(hits).astype(np.float64)
        )


def blocks_to_verdict(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figures 4 and 5: how soon, and how surely, effects are found."""
    for effect, bound in ((0.05, 5.0), (0.02, 7.5)):
        stopped = _sequences(rng, BASE, size.experiments, effect)
        yield average(
            4, f"blocks to a verdict, {effect:+.0%}, base", bound, stopped.blocks.astype(np.float64), "blocks"
        )
        if effect == 0.05:
            starts = 2 * stopped.blocks / (2 * FIXED_PROCESSES)  # one of each arm a block
            yield average(4, f"timed processes over {FIXED_PROCESSES} fixed ones an arm, +5%, base", 0.25, starts, "")
    stopped = _sequences(rng, BASE, size.experiments, 0.0)
    yield average(4, "blocks to equivalence within 1 %, base", 16.0, stopped.blocks.astype(np.float64), "blocks")
    for name, noise, effect in (("base", BASE, 0.01), ("noisy", NOISY, 0.02)):
        stopped = _sequences(rng, noise, size.experiments, effect)
        found = (stopped.code == ABOVE).astype(np.float64)
        yield share(5, f"power, {effect:+.0%}, {name}, at most 28 blocks", 0.95, "at least", found)


def false_equivalence(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 6: "equivalent" where the true change lies just on the edge of the region."""
    for name, noise in (("base", BASE), ("noisy", NOISY)):
        stopped = _sequences(rng, noise, size.experiments, math.log1p(0.01))
        yield share(
            6, f"false equivalence at the edge, {name}", 0.05, "at most", (stopped.code == EQUIVALENT).astype(float)
        )


def _sequences(rng: np.random.Generator, noise: Noise, experiments: int, effect: float) -> Stopped:
    """One comparison an experiment, followed to its stop; `effect` on the log scale."""
    drawn = draw(rng, noise, experiments=experiments, blocks=28, windows=30)
    return run_sequences(drawn.differences() + effect, drawn.order(), Analysis())


def _differs(stopped: Stopped) -> Bools:
    return np.asarray((stopped.code == ABOVE) | (stopped.code == BELOW))


# ------------------------------------------------------------------------------------------------ 8: steady state


SHAPES: Mapping[str, Callable[[Floats, int], Floats]] = {
    "a step, 10 %": lambda index, asked: np.where(index < asked / 4, 0.10, 0.0),
    "a decay, 20 %": lambda index, asked: 0.20 * np.exp(-index / (asked / 10)),
    "a throttle, 10 %": lambda index, asked: np.where(index >= 0.4 * asked, 0.10, 0.0),
}
NEVER: Mapping[str, Callable[[Floats, int], Floats]] = {
    "slowing down, 10 % a run": lambda index, asked: 0.10 * index / asked,
    "speeding up, 10 % a run": lambda index, asked: -0.10 * index / asked,
    "slowing down, 20 % a run": lambda index, asked: 0.20 * index / asked,
}


def steady_state(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 8: the cut, extensions included, on 30 windows with 1 % of noise; and on 15."""
    count = size.experiments // 4
    for asked in (30, 15):
        index = np.arange(4 * asked, dtype=np.float64)
        for name, shape in SHAPES.items():
            form = shape(index, asked)
            noise = 0.01 * autoregressive(rng, (count, 4 * asked), 0.6)
            ok, start, end = until_steady(form + noise, asked)
            left = [
                np.median((form + noise)[row, start[row] : end[row]]) - np.median(noise[row, start[row] : end[row]])
                for row in np.flatnonzero(ok)
            ]
            title = f"bias on {name}, {asked} windows"
            yield average(8, title, 0.001, np.array(left) - form[-1], "of the time", magnitude=True)
        flagged = []
        for shape in NEVER.values():
            noise = 0.01 * autoregressive(rng, (count, 4 * asked), 0.6)
            flagged.append(~until_steady(shape(index, asked) + noise, asked)[0])
        caught = np.concatenate(flagged).astype(np.float64)
        yield share(8, f"never-steady runs flagged, {asked} windows", 0.90, "at least", caught)
        flat = 0.01 * autoregressive(rng, (4 * count, asked), 0.6)
        trimmed = (find_steady_batch(np.exp(flat)).start > 0).astype(np.float64)
        yield share(8, f"flat AR(.6) series trimmed, {asked} windows", 0.10, "at most", trimmed)
        for rho in (0.0, 0.6, 0.9):
            flat = 0.01 * autoregressive(rng, (2 * count, 4 * asked), rho)
            refused = (~until_steady(flat, asked)[0]).astype(np.float64)
            yield share(8, f"flat AR({rho}) called not steady, {asked} windows", 0.01, "at most", refused)


def until_steady(log_times: Floats, asked: int) -> tuple[Bools, Ints, Ints]:
    """What the child does: `asked` windows, and up to three times as many again. (ok, start, end) of each series."""
    series, total = log_times.shape
    ok, start, end = np.zeros(series, dtype=bool), np.zeros(series, dtype=int), np.full(series, total)
    for windows in range(asked, total + 1, asked):
        rows = np.flatnonzero(~ok)
        batch = find_steady_batch(np.exp(log_times[rows, :windows]))
        ok[rows], start[rows], end[rows] = batch.ok, batch.start, windows
    return ok, start, end


# --------------------------------------------------------------------------------------------- 9, 10: time, exactness


def speed(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 9: processor time of this process to judge 20 cells of 28 blocks, windows and all."""
    arms = tuple(f"arm{index}" for index in range(20))
    experiment = Experiment(workloads=("simulated",), arms=arms, preset="tiny")
    run = simulate(experiment, "s", {}, BASE, blocks=28, seed=int(rng.integers(2**31)))
    seconds = []
    for _ in range(3):
        started = time.process_time()
        judge(experiment, "s", run.records, run.windows, last_look=True)
        seconds.append(time.process_time() - started)
    yield Figure(
        number=9, name="judging 20 cells x 28 blocks", bound=1.0, side="at most", reached=min(seconds),
        standard_error=0.0, repetitions=len(seconds), unit="s",
    )  # fmt: skip


def exactness(rng: np.random.Generator, size: Size) -> Iterator[Figure]:
    """Figure 10: swapping arms, changing the unit and relabelling blocks change what they must, and nothing else."""
    seeds = range(5 if size.grid == "quick" else 50)
    runs = [simulate(_pair(), "s", {"x": 1.01}, BASE, blocks=9, seed=seed, baselines=1) for seed in seeds]
    for name, change in (
        ("swapped arms", _swapped),
        ("time unit x 1024", _rescaled),
        ("relabelled blocks", _relabelled),
    ):
        worst = max(change(list(run.records), run.windows) for run in runs)
        yield Figure(
            number=10, name=f"largest change by {name} (log scale)", bound=0.0, side="at most", reached=worst,
            standard_error=0.0, repetitions=len(runs), unit="",
        )  # fmt: skip


def _pair() -> Experiment:
    return Experiment(workloads=("simulated",), arms=("x",), preset="tiny")


def _interval(records: Records, windows: Windows, experiment: Experiment | None = None) -> Comparison:
    return judge(experiment or _pair(), "s", records, windows, last_look=True).comparisons[0]


def _distance(one: Comparison, other: tuple[float | None, float | None]) -> float:
    assert one.ci_low
    assert one.ci_high
    assert other[0]
    assert other[1]
    return max(abs(math.log(one.ci_low) - math.log(other[0])), abs(math.log(one.ci_high) - math.log(other[1])))


def _swapped(records: Records, windows: Windows) -> float:
    """Distance of the swapped experiment's interval from the reciprocal, beyond the rounding of one exp and one log."""
    original = _interval(records, windows)
    swapped = [replace(record, is_baseline=not record.is_baseline) for record in records]
    other = _interval(swapped, windows, replace(_pair(), arms=("",), baseline="x"))
    assert other.ci_low
    assert other.ci_high
    distance = _distance(original, (1 / other.ci_high, 1 / other.ci_low))
    return distance if distance > 4 * np.finfo(float).eps else 0.0


def _rescaled(records: Records, windows: Windows) -> float:
    scaled = {key: {**table, "host_ns": table["host_ns"] * 1024} for key, table in windows.items()}
    original, other = _interval(records, windows), _interval(records, scaled)
    distance = _distance(original, (other.ci_low, other.ci_high))
    return distance if distance > 64 * np.finfo(float).eps else 0.0


def _relabelled(records: Records, windows: Windows) -> float:
    relabelled = [replace(record, block_index=100 - (record.block_index or 0)) for record in records]
    original, other = _interval(records, windows), _interval(relabelled, windows)
    return _distance(original, (other.ci_low, other.ci_high))


FIGURES: tuple[Callable[[np.random.Generator, Size], Iterator[Figure]], ...] = (
    coverage,
    false_positives,
    families,
    blocks_to_verdict,
    false_equivalence,
    bias,
    steady_state,
    speed,
    exactness,
)
