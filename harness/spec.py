"""What we intend: workloads, treatments, arms, cells, trials and experiments, as plain values.

Nothing here imports torch or anything else of ours; the parent, the child and every plug-in share these types.
What actually happened is in `record`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Scalar = bool | int | float | str
Params = Mapping[str, Scalar]


# ------------------------------------------------------------------------------------------------ errors


class UsageError(Exception):
    """The user's or the machine's mistake: says what, the value, and what to do. Ends a command with exit code 2."""


class NoEffect(Exception):
    """Raised by a proof: the runtime shows no sign of the treatment. The trial ends `not_applied`, without a number."""


class NotApplicable(Exception):
    """Raised by a hook: the treatment cannot act on this workload (no such layer, say). Ends `not_applicable`."""


# ------------------------------------------------------------------------------------------------ stages


@dataclass(frozen=True)
class Stage:
    """One place where a treatment may act. `STAGES` lists them in the order of application."""

    name: str
    hook: str
    one: bool = False
    """Whether at most one treatment of an arm may fill it."""
    acts_on: Literal["anything", "data", "model"] = "model"
    """What a workload must have for it: a step of any kind, torch data, or a torch model."""


STAGES: tuple[Stage, ...] = (
    Stage(
        "process",
        "(parent) ProcessChange -> ProcessChange: executable, environment, allocator, prefix, ranks",
        acts_on="anything",
    ),
    Stage("runtime", "(child, right after import torch) None -> None: global flags, through one API only"),
    Stage("data", "dataset -> dataset", acts_on="data"),
    Stage("loader", "dict of DataLoader arguments -> dict of DataLoader arguments", acts_on="data"),
    Stage(
        "loader.replace", "None -> iterable of host batches, used in place of the DataLoader", one=True, acts_on="data"
    ),
    Stage("feed", "(host batch -> device batch) -> (host batch -> device batch)", acts_on="data"),
    Stage("feed.ahead", "iterator of device batches -> one that works ahead", one=True, acts_on="data"),
    Stage("surgery", "model -> model: modules replaced"),
    Stage("layout", "model -> model, after the move to the device"),
    Stage("recompute", "model -> model: activation checkpointing, offload"),
    Stage("compile", "model -> model, or (infer) model -> callable; compile and export share this stage", one=True),
    Stage("shard", "model -> model: one base (ddp, fsdp, ...); variants are its parameters", one=True),
    Stage("optimizer", "(class, dict of arguments) -> (class, dict of arguments); built after sharding"),
    Stage("forward", "(batch -> loss) -> (batch -> loss), e.g. autocast"),
    Stage("update.split", "(batch -> [batch]) -> (batch -> [micro-batch])", one=True),
    Stage("update.backward", "(loss -> None) -> (loss -> None): scale, sync policy", one=True),
    Stage("update.clip", "(() -> None) -> (() -> None)", one=True),
    Stage(
        "update.apply", "(() -> bool) -> (() -> bool): steps the optimizer; False where the step was skipped", one=True
    ),
    Stage("update.zero", "(() -> None) -> (() -> None)", one=True),
    Stage("capture", "Step -> (() -> bool): step -> captured step (CUDA graph); owns its warm-up", one=True),
    Stage(
        "between",
        "(() -> None) -> (() -> None): step -> step that does something after it, inside the timed region",
        acts_on="anything",
    ),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)


# ------------------------------------------------------------------------------------------------ the child's side


@dataclass(frozen=True, slots=True)
class Step:
    """One step in its two halves, for what records or replays them apart. Says whether the update was performed."""

    fetch: Callable[[], Any]
    """() -> the next batch, on the device"""
    compute: Callable[[Any], bool]
    """batch -> whether the step was performed: False where a loss scaler skipped it"""

    def __call__(self) -> bool:
        return self.compute(self.fetch())


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor argument of a traced operator."""

    dtype: str
    """As torch prints it, without the prefix: "float32", "bfloat16"."""
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements; empty where the runtime did not report them."""


@dataclass(frozen=True, slots=True)
class Op:
    """One operator call in the profiled step, as the runtime saw it."""

    name: str
    inputs: tuple[TensorInfo, ...]
    start_ns: int
    duration_ns: int
    thread: int
    backward: bool
    """Ran inside an autograd node."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One device kernel or copy in the profiled step."""

    name: str
    start_ns: int
    duration_ns: int
    stream: int


@dataclass(frozen=True, slots=True)
class Collective:
    """One exchange between ranks in the profiled step, as this rank issued it."""

    name: str
    """As torch calls it: "allreduce", "allgather_base", "reduce_scatter_base", "broadcast"."""
    dtype: str
    size_bytes: int
    """Of the whole that is reduced, gathered, scattered or broadcast."""

    def sent_bytes(self, rank_count: int) -> float:
        """What a rank sends on average by a ring, the least that moves the data.

        An all-reduce is a reduce-scatter and an all-gather, so it counts twice.
        https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
        """
        passes = 2 if "allreduce" in self.name else 1
        return passes * self.size_bytes * (rank_count - 1) / rank_count


class Trace(Protocol):
    """One step profiled with shapes after the timed part; what proofs read. `child.torch_side.trace` makes it."""

    @property
    def ops(self) -> Sequence[Op]: ...

    @property
    def kernels(self) -> Sequence[Kernel]: ...

    def named(self, *patterns: str) -> list[Op]:
        """The operators whose name contains one of the patterns."""

    def matmuls(self) -> list[Op]:
        """The matrix products, fused or not, forward and backward."""

    def convolutions(self) -> list[Op]:
        """The convolutions, forward and backward."""

    def collectives(self) -> list[Collective]:
        """What this rank exchanged with the others, in order; empty where a replayed graph shows no operators."""

    def communication_ns(self) -> int:
        """Time during which at least one exchange was under way."""


class Pause(Protocol):
    """What is entered around work during which something rests."""

    def __call__(self) -> AbstractContextManager[Any]: ...


class Bench(Protocol):
    """What a treatment's hook and proof may see of the trial under way. Implemented by `child.torch_side.assemble`."""

    workload: Workload
    mode: str
    params: Params
    device: Any
    """torch.device"""
    seed: int
    rank: int
    rank_count: int
    model: Any
    """The module built by the workload; the treated one once the model stages have run (it may then be a callable)."""
    optimizer: Any
    loader: Any
    dataset: Any
    forward: Callable[[Any], Any]
    """batch -> loss (train) or output (infer), untreated until the forward stage has run."""
    step_times_ns: list[int]
    """Host times of the warm-up steps after the first, in order; what a calibrated treatment reads."""
    facts: dict[str, Any]
    """What hooks found out, as plain values: stored with the trial."""
    kept: dict[str, Any]
    """Live objects that hooks hand to one another and to their proof, by the treatment's name; never stored."""
    without_sync: Pause
    """Entered around all micro-batches of a step but the last, where ranks need not exchange gradients yet."""

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, in rank order. All ranks have to call it: gather first, judge afterwards."""

    def processes(self) -> list[Any]:
        """psutil processes below this one (loader workers, compile workers)."""

    def mapped_libraries(self) -> list[str]:
        """Paths of the shared objects mapped into this process, from /proc/self/maps."""

    def compile_counters(self) -> Mapping[str, int]:
        """Frames compiled, graph breaks, recompiles and cudagraph skips so far in this process."""

    def sample_batch(self) -> Any:
        """The batch used last, on the device."""

    def saved_state(self) -> Callable[[], None]:
        """Copy parameters and buffers; what is returned puts them back in place, and the optimizer to its start."""


@dataclass(frozen=True)
class Proof:
    """How a treatment shows that it applied: a snapshot after warm-up, a judgement after the last window.

    `after` returns evidence (stored beside the number) or raises `NoEffect`. It reads the runtime, not the request, and
    never uses module hooks. The session also runs it on the baseline: accepted there means `already so`.
    """

    after: Callable[..., dict[str, Any]]
    """after(bench, snapshot, trace, **params) -> evidence"""
    before: Callable[..., Any] | None = None
    """before(bench, **params) -> snapshot"""


# ------------------------------------------------------------------------------------------------ treatments


@dataclass(frozen=True)
class Param:
    """One parameter of a treatment. The default may be an expression over the machine: "min(cores - 1, 8)"."""

    default: Scalar
    about: str
    choices: tuple[Scalar, ...] = ()
    minimum: float | None = None
    maximum: float | None = None
    kind: Literal["bool", "int", "float", "str"] = "str"


@dataclass(frozen=True, kw_only=True)
class Requires:
    """What must hold for a treatment to be tried; an unmet need becomes one stored skip row with a sentence."""

    modes: tuple[str, ...] = ("train", "infer")
    inputs: tuple[str, ...] = ("loader", "resident")
    devices: tuple[str, ...] = ("cpu", "cuda")
    capability: tuple[int, int] | None = None
    gpus: int = 0
    ranks: int = 1
    """Processes that train together; on CUDA each has a device of its own."""
    torch: str = ""
    packages: tuple[str | tuple[str, ...], ...] = ()
    """Distributions, as `importlib.metadata` names them; of a tuple within it any one will do."""
    commands: tuple[str, ...] = ()
    libraries: tuple[str | tuple[str, ...], ...] = ()
    """Shared objects that the dynamic loader must find ("libjemalloc.so.2"); alternatives as with packages."""
    root: bool = False
    """Changes the machine itself: needs root, and the user's --allow-privileged."""
    traits: tuple[str, ...] = ()
    """Traits of the workload that must all be present."""
    with_treatments: tuple[str, ...] = ()
    """Treatments that must be in the same arm ("persistent workers" without workers is an error of DataLoader)."""


@dataclass(frozen=True)
class ProcessChange:
    """What the process stage has gathered so far. Every method returns a new value; a clash raises `UsageError`."""

    python: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    allocator: Mapping[str, str] = field(default_factory=dict)
    """Keys of PYTORCH_CUDA_ALLOC_CONF / PYTORCH_ALLOC_CONF, merged into one variable by the launcher."""
    prefix: tuple[str, ...] = ()
    ranks: int = 1

    def with_env(self, name: str, value: str) -> ProcessChange:
        return dataclasses.replace(self, env=self._merged(self.env, name, value, "environment variable"))

    def with_allocator(self, key: str, value: str) -> ProcessChange:
        return dataclasses.replace(self, allocator=self._merged(self.allocator, key, value, "allocator setting"))

    def with_prefix(self, *argv: str) -> ProcessChange:
        return dataclasses.replace(self, prefix=(*argv, *self.prefix))

    def with_ranks(self, ranks: int) -> ProcessChange:
        if self.ranks not in (1, ranks):
            raise UsageError(
                f"two treatments of the arm ask for {self.ranks} and for {ranks} ranks; give both the same"
            )
        return dataclasses.replace(self, ranks=ranks)

    def with_python(self, path: str) -> ProcessChange:
        if self.python not in ("", path):
            raise UsageError(f"two treatments of the arm ask for the Pythons {self.python} and {path}; keep one")
        return dataclasses.replace(self, python=path)

    @staticmethod
    def _merged(old: Mapping[str, str], key: str, value: str, what: str) -> dict[str, str]:
        if key in old and old[key] != value:
            raise UsageError(
                f"two treatments of the arm set the {what} {key}: '{old[key]}' and '{value}'; keep one of them"
            )
        return {**old, key: value}


Numerics = Literal["identical", "close", "changes"]


@dataclass(frozen=True, kw_only=True)
class Treatment:
    """One optimisation that can be toggled: optional hooks by stage, and the proof that they took effect.

    A hook is `hook(value, bench, **params) -> value`, where the value is what `STAGES` says of its stage; the process
    stage's hook is `hook(change, machine, **params) -> change` and runs in the parent, without torch.
    """

    name: str
    summary: str
    sources: tuple[str, ...]
    proof: Proof
    hooks: Mapping[str, Callable[..., Any]]
    params: Mapping[str, Param] = field(default_factory=dict)
    requires: Requires = Requires()
    requires_for: Callable[..., Requires] | None = None
    """requires_for(**params) -> Requires, where the need depends on the parameters."""
    occupies: tuple[str, ...] = ()
    """Exclusive resources ("precision"): two treatments of an arm may not occupy the same one."""
    changes: tuple[str, ...] = ()
    """Facts of the work or of the environment altered on purpose; equality is not demanded of them."""
    addresses: tuple[str, ...] = ()
    """The bottlenecks it is meant to relieve: compute, memory, loader, launch, communication, host."""
    numerics: Callable[[frozenset[str]], Numerics] = lambda traits: "close"
    """The workload's traits -> how far results may move."""
    numerics_for: Callable[..., Numerics] | None = None
    """numerics_for(traits, **params) -> the same, where it depends on the parameters."""
    conflicts: Callable[[Params, Mapping[str, Params]], str | None] | None = None
    """(own parameters, the others' by name) -> a reason in words, where stages and resources do not say it."""
    before: bool = False
    """A harmful old habit, meant for a before arm."""

    def __post_init__(self) -> None:
        unknown = set(self.hooks) - set(STAGE_NAMES)
        assert not unknown, f"treatment {self.name}: no stage named {sorted(unknown)}"

    def promise(self, traits: frozenset[str], params: Params) -> Numerics:
        """How far it may move the results of a workload with these traits; `params` are complete."""
        return self.numerics_for(traits, **params) if self.numerics_for else self.numerics(traits)


# ------------------------------------------------------------------------------------------------ workloads


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Model, data, loss and unit of work. All functions run in the child and import what they need inside.

    A torch workload fills `dataset`, `model`, `loss` and (for infer) `predict`; without `model` its step is a batch
    loaded. One without torch fills `plain`.
    """

    name: str
    summary: str
    sources: tuple[str, ...] = ()
    unit: str
    """What one item is: "images", "tokens", "steps"."""
    traits: frozenset[str] = frozenset()
    """Of: conv, batchnorm, image, attention, gelu, dropout, text, padding, repeated_blocks, jupyter, command, and
    attention_function: its modules have an `attend` that may be replaced."""
    presets: Mapping[str, Params]
    """tiny, small and full; each gives every parameter, among them `batch` where there are batches."""
    modes: tuple[str, ...] = ("train", "infer")
    inputs: tuple[str, ...] = ("loader", "resident")
    devices: tuple[str, ...] = ("cpu", "cuda")
    packages: tuple[str, ...] = ()
    standard: bool = False
    """One of those that are measured where no workload is named (`make matrix`)."""
    prepare: Callable[..., DataRef] | None = None
    """prepare(cache: Path, source: Path | None, seed: int, **params) -> DataRef. Runs in the parent without torch:
    makes the data once (or checks the user's own, raising UsageError)."""
    dataset: Callable[..., Any] | None = None
    """dataset(folder: Path, mode, seed, **params) -> map-style torch Dataset"""
    collate: Callable[[list[Any]], Any] | None = None
    model: Callable[..., Any] | None = None
    """model(mode, **params) -> nn.Module, randomly initialised under the seed already set"""
    loss: Callable[[Any, Any], Any] | None = None
    """loss(model, batch) -> scalar tensor: the forward pass of a training step"""
    predict: Callable[[Any, Any], Any] | None = None
    """predict(model, batch) -> tensor: the forward pass of an inference step"""
    optimizer: Callable[[], tuple[Any, dict[str, Any]]] | None = None
    """() -> (optimizer class, its arguments)"""
    items: Callable[[Any], int] | None = None
    """items(batch) -> units of work in it"""
    blocks: Callable[[Any], list[Any]] | None = None
    """blocks(model) -> its repeated sub-modules, in order (for checkpointing and per-block compilation)"""
    parts: Mapping[str, Part] = field(default_factory=dict)
    """What `predict` does one after the other ("prefill", "decode"), timed apart from the windows, after them."""
    plain: Callable[..., PlainBench] | None = None
    """plain(mode, seed, **params) -> PlainBench, for workloads without torch; with `folder: Path` if it prepares one"""

    @property
    def needs_torch(self) -> bool:
        return self.plain is None

    @property
    def has(self) -> frozenset[str]:
        """What a treatment's stage can act on here; see `Stage.acts_on`."""
        torch_parts = {"data"} if self.dataset else set()
        return frozenset({"anything"} | torch_parts | ({"model"} if self.model else set()))


@dataclass(frozen=True)
class Part:
    """One part of an inference step, to be timed by itself."""

    run: Callable[[Any, Any], Any]
    """run(model, what the part before gave, or the batch) -> what the next part takes"""
    items: Callable[[Any], int]
    """items(batch) -> units of work that it does for the batch"""


@dataclass(frozen=True)
class DataRef:
    """Where a workload's data lie and what they are: part of the cell's identity."""

    folder: str
    digest: str
    """SHA-256 over names and contents (or of the generator's version, seed and parameters)."""
    items: int
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlainBench:
    """A workload without torch: the step, and how many units of work one call does."""

    step: Callable[[], Any]
    items_per_step: int
    facts: Callable[[], dict[str, Any]] = dict
    """What to keep beside the numbers, asked after the last step: versions, sizes, output.

    They must be equal in the runs that are compared, except those whose name starts with "kept.".
    """


# ------------------------------------------------------------------------------------------------ arms, cells, trials


@dataclass(frozen=True, order=True)
class Use:
    """A treatment with its parameters, as it stands in an arm."""

    name: str
    params: tuple[tuple[str, Scalar], ...] = ()

    @property
    def kwargs(self) -> dict[str, Scalar]:
        return dict(self.params)


@dataclass(frozen=True, order=True)
class Arm:
    """A normalised set of treatments, sorted by name; the empty arm is plain PyTorch. `arms` parses and prints it."""

    uses: tuple[Use, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(use.name for use in self.uses)


class Kind(enum.StrEnum):
    """What a trial is run for."""

    TIMING = "timing"
    NUMERICS = "numerics"
    PROFILE = "profile"
    PREPARE = "prepare"


class Phase(enum.StrEnum):
    """The parts of a trial's life, in order; each has its own time limit."""

    IMPORT = "import"
    """From the start of the process, of torchrun where there are several ranks, to everything imported."""
    BUILD = "build"
    FIRST_STEP = "first step"
    WARM_UP = "warm-up"
    TIMED = "timed part"
    PROOF = "proof"
    """Of an arm's effect; a numerics trial is nothing else once it has imported."""
    EXIT = "exit"
    """From the record written to the process ended."""


@dataclass(frozen=True, kw_only=True)
class Measure:
    """How a trial is measured; part of the cell, so a change makes another cell. 0 = the device's default."""

    windows: int = 0
    """Windows wanted at least: 15 on a CPU, 30 on a GPU; 300 where each is one request."""
    window_ms: float = 100.0
    """A window holds as many steps as this takes (and at least 5 on a GPU)."""
    warmup_steps: int = 0
    """Steps before the first window: 2 on a CPU, 10 on a GPU; compiled and captured arms add their own."""
    timed_seconds: float = 0.0
    """Where steps are so slow that the windows would take longer than this, fewer are taken (never under 5):
    15 on a CPU, 60 on a GPU and where each is one request."""
    extensions: int = 3
    """How often an unsteady process may go on for as many windows again."""
    compile_cache: Literal["warm", "cold"] = "warm"
    protocol: Literal["steps", "epochs", "requests"] = "steps"
    """What a window holds: as many steps as fill it, one whole pass over the data, or one request, the device waited
    for before and after."""


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """How records are judged; not part of the cell."""

    rope: float = 0.01
    """Half-width of the region of practical equivalence, as a relative change."""
    alpha: float = 0.05
    max_blocks: int = 28
    min_blocks: int = 4
    precision: float = 0.0
    """Go on after a verdict until the interval's half-width is below this (0: stop at the verdict)."""
    open_ended: bool = False
    budget: str = ""
    """Wall-clock time, e.g. "10m"; the run ends in verdicts when it is spent."""
    max_steal_share: float = 0.02
    """A trial during which the hypervisor took more of the CPU time than this disturbs its block, which is dropped."""
    max_foreign_cpu_share: float = 0.10
    """Likewise for CPU time of other processes, in cores."""


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A question with its arms, as read from TOML or built from a command line."""

    name: str = ""
    question: str = ""
    workloads: tuple[str, ...] = ()
    preset: str = ""
    mode: str = "train"
    input: str = "loader"
    device: str = "auto"
    data: str = ""
    design: str = "arms"
    replicates: int = 0
    """Design "aa": how often a block runs the baseline, to be compared with itself; 7 give 21 pairs."""
    treatments: tuple[str, ...] = ()
    arms: tuple[str, ...] = ()
    baseline: str = ""
    seed: int = 0
    axes: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    numerics: bool = True
    """Check what every arm computes against the plain model in double precision, before it is timed."""
    params: Mapping[str, Scalar] = field(default_factory=dict)
    """Overrides of the preset's parameters, for every workload that has them."""
    measure: Measure = Measure()
    analysis: Analysis = Analysis()

    @property
    def is_aa(self) -> bool:
        """Whether the baseline is compared with itself, to learn what this machine can tell apart."""
        return self.design == "aa"


@dataclass(frozen=True, kw_only=True)
class Cell:
    """Everything that must be equal for two numbers to be replicates of one another, the arm included."""

    workload: str
    params: Mapping[str, Scalar]
    preset: str
    mode: str
    input: str
    data_digest: str
    device: str
    arm: Arm
    kind: Kind
    measure: Measure


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where a plug-in's code lies: a module name that any process can import, its file, and the constant in it."""

    name: str
    module: str
    path: str
    constant: str


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One process (or one torchrun): a cell at a place in a block. Written to trial.json, which a user can re-run."""

    trial_id: str
    spec_id: str
    session_id: str
    cell: Cell
    cell_id: str
    is_baseline: bool
    block_index: int | None
    position: int | None
    seed: int
    device_index: int | None
    """Index among the devices visible to the child; null on a CPU."""
    threads: int
    """OpenMP and torch intra-op threads per rank."""
    rank_count: int
    data_folder: str
    items_in_data: int
    work_folder: str
    """Where the child writes its record and output; on the same file system as the results."""
    compile_cache: str
    workload_source: Source
    treatment_sources: tuple[Source, ...]
    also_prove: tuple[Use, ...] = ()
    """Treatments of other arms whose proofs are tried on this one: accepted means `already so`."""
    on_bad_item: Literal["fatal", "skip"] = "fatal"


# ------------------------------------------------------------------------------------------------ claims

ParamsByTreatment = Mapping[str, Params]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """What somebody says of a treatment, as it stands in experiments/claims.toml; its head says what each key means."""

    id: str
    source: str
    statement: str
    metric: str = ""
    also_metric: str = ""
    change: float | tuple[float, float] | None = None
    bound: Literal["", "at_most"] = ""
    readings: tuple[tuple[str, float, float], ...] = ()
    direction: Literal["", "lower", "higher"] = ""
    value: float | None = None
    workload: str = "any"
    also_workload: str = ""
    mode: str = "train"
    protocol: str = "steps"
    axes: Mapping[str, tuple[Scalar, ...]] = field(default_factory=dict)
    treatments: tuple[str, ...] = ()
    params: ParamsByTreatment = field(default_factory=dict)
    before: tuple[str, ...] = ()
    before_params: ParamsByTreatment = field(default_factory=dict)
    alternatives: tuple[str, ...] = ()
    alternatives_before: tuple[str, ...] = ()
    modern: tuple[str, ...] = ()
    also_treatments: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    scope: Literal["", "cuda"] = ""
    needs: str = "cpu"
    hardware: str = ""
    as_written: str = ""

    @property
    def article(self) -> str:
        """The article it is taken from: "001"."""
        return self.id.partition("-")[0]
