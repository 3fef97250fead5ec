"""A plausible experiment made by hand for the report's tests, and a real browser to look at the result with."""

from __future__ import annotations

import base64
import json
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.judge.types import BlockPoint, Comparison, Judgement, Threat, Word
from harness.record import Fact, Outcome, TrialRecord
from harness.report import page
from harness.report.data import ReportContext
from harness.spec import Analysis, Experiment

BASE_NS = {"resnet50": 412e6, "gpt2_small": 655e6, "bert_base": 540e6, "vit_base": 71e6}
MIB = 2**20


@dataclass(frozen=True)
class Case:
    """All that `render` takes."""

    judgement: Judgement
    trials: tuple[TrialRecord, ...]
    windows: Mapping[str, dict[str, Any]]
    facts: tuple[Fact, ...]
    samples: Mapping[str, dict[str, Any]]
    context: ReportContext

    def arguments(self) -> tuple[Any, ...]:
        return (self.judgement, self.trials, self.windows, self.facts, self.samples, self.context)


@dataclass
class Lab:
    """Invents trials with a known effect and the comparisons that a judge would make of them."""

    device: str = "cpu"
    windows_each: int = 15
    process_sd: float = 0.005
    comparisons: list[Comparison] = field(default_factory=list)
    trials: list[TrialRecord] = field(default_factory=list)
    windows: dict[str, dict[str, Any]] = field(default_factory=dict)
    samples: dict[str, dict[str, Any]] = field(default_factory=dict)
    _random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(20_240))
    _drawn: dict[tuple[Any, ...], list[tuple[str, float]]] = field(default_factory=dict)

    def compare(
        self,
        workload: str,
        arm: str,
        effect: float,
        verdict: Word,
        *,
        blocks: int = 6,
        memory: float = 1.0,
        axes: Mapping[str, Any] | None = None,
        reason: str = "",
        **more: Any,
    ) -> None:
        """One comparison with its trials: `effect` is the true speedup, `memory` the true ratio of peak memory."""
        place = {"workload": workload, "mode": "train", "preset": "small", "input": "loader", "axes": axes or {}}
        common = {**place, "arm": arm, "baseline": "", "unit": "ns", "metric": "step_time"}
        if verdict == Word.NOT_RUN:
            nothing: dict[str, Any] = dict.fromkeys(
                ("before", "after", "speedup", "ci_low", "ci_high", "ci_level", "raw_ci_low", "raw_ci_high")
            )
            self.comparisons.append(
                Comparison(**common, **nothing, blocks=0, verdict=verdict, reason=reason, final=True, **more)
            )
            return
        points = tuple(self._block(workload, arm, effect, memory, axes or {}, index) for index in range(blocks))
        logs = np.log([point.before / point.after for point in points])
        middle, error = float(logs.mean()), float(logs.std(ddof=1) / math.sqrt(blocks)) + 1e-5
        low, high, raw_low, raw_high = (math.exp(middle + t * error) for t in (-4.6, 4.6, -2.57, 2.57))
        before = float(np.exp(np.mean(np.log([point.before for point in points]))))
        self.comparisons.append(
            Comparison(
                **common, before=before, after=before / math.exp(middle), speedup=math.exp(middle),
                ci_low=low, ci_high=high, ci_level=0.9949, raw_ci_low=raw_low, raw_ci_high=raw_high,
                blocks=blocks, verdict=verdict, reason=reason, points=points, **more,
            )
        )  # fmt: skip
        self._secondary(place, arm, middle, memory, before)

    def _secondary(self, place: dict[str, Any], arm: str, middle: float, memory: float, before_ns: float) -> None:
        used = 1536.0 * MIB
        common = {**place, "arm": arm, "baseline": "", "ci_level": 0.95, "blocks": 6, "reason": "", "primary": False}
        lower = Word.LOWER if memory < 1 else Word.HIGHER if memory > 1 else Word.EQUIVALENT
        rate = 8e9 / before_ns
        for metric, unit, before, after, ratio, verdict in (
            ("peak_memory", "bytes", used, used * memory, 1 / memory, lower),
            ("throughput", "items/s", rate, rate * math.exp(middle), math.exp(middle), Word.HIGHER),
            ("data_wait", "1", 0.013, 0.021, 0.62, Word.INCONCLUSIVE),
        ):
            wide = 1.0 if metric == "peak_memory" else 1.03
            self.comparisons.append(
                Comparison(
                    **common, metric=metric, unit=unit, before=before, after=after, speedup=ratio, ci_low=ratio / wide,
                    ci_high=ratio * wide, raw_ci_low=ratio / wide, raw_ci_high=ratio * wide, verdict=verdict,
                )
            )  # fmt: skip

    def _block(
        self, workload: str, arm: str, effect: float, memory: float, axes: Mapping[str, Any], index: int
    ) -> BlockPoint:
        typical = BASE_NS.get(workload, 100e6) * axes.get("batch", 8) / 8
        order = 1 if self._random.random() < 0.5 else -1
        key = (workload, tuple(axes.items()), index)
        if key not in self._drawn:
            self._drawn[key] = [self._trial(workload, "", typical, 1.0, axes, index, place) for place in (0, 2)]
        baselines = self._drawn[key]
        drift = 1 + 0.004 * index
        treated = self._trial(workload, arm, typical / effect * drift, memory, axes, index, 1)
        before = float(np.exp(np.mean(np.log([value for _, value in baselines])))) * drift
        return BlockPoint(
            block_index=index,
            session_id=session(index),
            before=before,
            after=treated[1],
            order=order,
            baselines=tuple(value for _, value in baselines),
            trial_ids=(*(name for name, _ in baselines), treated[0]),
        )

    def _trial(
        self, workload: str, arm: str, typical: float, memory: float, axes: Mapping[str, Any], index: int, place: int
    ) -> tuple[str, float]:
        """One process: its windows, its record, its samples; returns its id and its median step."""
        name = f"0198c0de-0000-7000-8000-{len(self.trials):012x}"
        level = typical * math.exp(self.process_sd * self._random.standard_normal())
        noise = self._random.standard_normal(self.windows_each) * 0.01
        times = level * np.exp(noise) * np.where(self._random.random(self.windows_each) < 0.02, 1.2, 1.0)
        steps = np.full(self.windows_each, 1 if typical > 1e8 else 2)
        self.windows[name] = {
            "step_count": steps,
            "host_ns": (times * steps).astype(np.int64),
            "window_index": np.arange(self.windows_each),
            "rank": np.zeros(self.windows_each, dtype=np.int64),
            "data_wait_ns": times * 0.013,
        }
        self.samples[name] = {
            "cpu_frequency_mhz": 2900 + 40 * self._random.standard_normal(12),
            "sm_clock_mhz": np.full(12, np.nan) if self.device == "cpu" else np.full(12, 1755.0),
            "power_mw": np.full(12, np.nan)
            if self.device == "cpu"
            else 512_000 + 9000 * self._random.standard_normal(12),
        }
        bf16 = "amp_bf16" in arm
        used = int(1536 * MIB * memory)
        self.trials.append(
            TrialRecord(
                trial_id=name, spec_id="s" + 63 * "5", session_id=session(index), block_index=index, position=place,
                cell_id="c1", code_id="k" + 63 * "7", base_env_id="e" + 63 * "2", hardware_id="h" + 63 * "9",
                machine_id="m1", environment_id="n1",
                workload=workload, mode="train", preset="small", input="loader", arm=arm, is_baseline=not arm,
                device=self.device, params_json=json.dumps({"batch": 8, "size": 224, **axes}),
                started_at=f"2026-03-11T09:{len(self.trials) % 60:02d}:07.000000Z", items_per_step=8.0,
                raw_median_window_ns=float(np.median(times)), startup_import_ns=int(3.1e9), startup_build_ns=int(1.4e9),
                startup_first_step_ns=int((9.7 if "compile" in arm else 0.9) * 1e9),
                startup_compile_ns=int(8.4e9) if "compile" in arm else None,
                startup_total_ns=int((15.2 if "compile" in arm else 6.2) * 1e9),
                peak_host_bytes=used + index * 1000, cpu_utilization=0.93 - 0.002 * index,
                peak_allocated_bytes=None if self.device == "cpu" else used,
                gpu_utilization=None if self.device == "cpu" else 0.97,
                steal_share=0.0004, foreign_cpu_share=0.012,
                facts_json=json.dumps({"torch": {"num_threads": 2, "autocast": bf16}, "mkldnn": True}),
                evidence_json=json.dumps({"amp_bf16": {"matmul_dtypes": ["bfloat16"], "share": 0.98}} if bf16 else {}),
            )
        )  # fmt: skip
        return name, float(np.median(times))

    def fail(self, workload: str, arm: str, outcome: Outcome, reason: str, **more: Any) -> None:
        """A trial or skip without a number."""
        name = f"0198c0de-ffff-7000-8000-{len(self.trials):012x}"
        self.trials.append(
            TrialRecord(
                trial_id=name, workload=workload, arm=arm, mode="train", preset="small", input="loader",
                outcome=outcome, reason=reason, started_at="2026-03-11T09:59:00.000000Z", machine_id="m1", **more,
            )
        )  # fmt: skip


def session(block: int) -> str:
    return f"0198c0de-5e55-7000-8000-00000000000{1 if block < 5 else 2}"


def context(**more: Any) -> ReportContext:
    known: dict[str, Any] = {
        "command": 'make bench WORKLOAD=resnet50 TREATMENTS="amp_bf16 amp_bf16+channels_last" PRESET=small SEED=7',
        "spec_text": 'question  = "Which of the usual optimizations make these workloads faster on this CPU?"\n'
        'workloads = ["resnet50", "gpt2_small", "bert_base"]\n\n[analysis]\nrope = 0.01\n',
        "spec_hash": "s" + 63 * "5",
        "result_hashes": {f"trials/0198c0de-{index:04d}.parquet": f"{index:064x}" for index in range(3)},
        "generator": "harness 0.1.0",
    }
    return ReportContext(**{**known, **more})


FACTS = (
    Fact(path="cpu.model", value="Intel Xeon Platinum 8481C", source="/proc/cpuinfo", kind="hardware"),
    Fact(path="cpu.effective_cores", value="2", source="affinity, cgroup", kind="identity"),
    Fact(path="cpu.logical_cores", value="2", source="os.cpu_count", kind="hardware"),
    Fact(path="cpu.microcode", value=None, source="/proc/cpuinfo", state="absent", kind="hardware"),
    Fact(path="torch.version", value="2.14.0+cpu", source="torch/version.py", kind="identity"),
    Fact(path="python.version", value="3.11.7", source="interpreter", kind="identity"),
    Fact(path="memory.total", value="16777216000", unit="bytes", source="/proc/meminfo"),
    Fact(path="cpu.governor", value=None, source="/sys/devices/system/cpu", state="denied"),
    Fact(path="cpu.features", value="avx2 avx512f amx_bf16 amx_int8", source="/proc/cpuinfo"),
    Fact(path="package.nvidia-cudnn-cu12", value="9.10.2.21", source="installed distributions"),
    Fact(path="system.hostname", value="secret-host-17", source="uname"),
)

STACK = "amp_bf16+channels_last+torch_compile(mode=max-autotune)"


def varied(device: str = "cpu") -> Case:
    """Three workloads with verdicts of every kind."""
    lab = Lab(device=device)
    lab.compare("resnet50", "channels_last", 1.12, Word.FASTER, memory=0.98, beyond_rope=True)
    lab.compare("resnet50", "amp_bf16", 1.66, Word.FASTER, memory=0.63, beyond_rope=True)
    lab.compare("resnet50", STACK, 2.31, Word.FASTER, memory=0.58, beyond_rope=True,
                notes=("TAIL EFFECT: the mean step gains 2.02, the typical step 2.31",))  # fmt: skip
    lab.compare("resnet50", "slowdown(percent=5)", 1 / 1.05, Word.SLOWER, beyond_rope=True)
    lab.compare("gpt2_small", "channels_last", 1.0, Word.NOT_RUN,
                reason="not applicable: the model has no convolution with a spatial extent")  # fmt: skip
    lab.compare("gpt2_small", "amp_bf16", 1.42, Word.FASTER, memory=0.7, beyond_rope=True)
    lab.compare("gpt2_small", STACK, 1.9, Word.INVALID, memory=0.66,
                reason="wrong numerics: the loss differs by 3.1 times the allowed error")  # fmt: skip
    lab.compare("gpt2_small", "fused_optimizer", 1.004, Word.EQUIVALENT, blocks=13, reason="faster, by less than 1 %")
    lab.compare("gpt2_small", "gradient_checkpointing", 0.78, Word.SLOWER, memory=0.52, beyond_rope=True)
    lab.compare("bert_base", "amp_bf16", 1.013, Word.INCONCLUSIVE, blocks=4, memory=0.8, blocks_needed=9,
                minimal_detectable_effect=0.021, reason="the budget is spent", dropped_blocks=1)  # fmt: skip
    lab.compare("bert_base", "omp_threads(n=1)", 0.55, Word.SLOWER, beyond_rope=True)
    lab.compare("bert_base", "loader_workers(workers=2)", 1.0, Word.NOT_RUN, reason="oom_host at the batch asked for")
    lab.fail(
        "gpt2_small", "channels_last", Outcome.NOT_APPLICABLE, "the model has no convolution with a spatial extent"
    )
    lab.fail("bert_base", "loader_workers(workers=2)", Outcome.OOM_HOST, "the kernel ended the process (signal 9)",
             block_index=2, stderr_tail="Traceback:\n  File \"/home/alice/work/loader.py\", line 3\n"
             "MemoryError: cannot allocate 12 GiB")  # fmt: skip
    lab.fail("resnet50", "amp_bf16", Outcome.DISTURBED, "stolen CPU time 4.1 %, above 2 %", block_index=3, attempt=1)
    judgement = Judgement(
        experiment=Experiment(
            name="bench_cpu",
            question="Which of the usual optimizations make these workloads faster on this CPU?",
            workloads=("resnet50", "gpt2_small", "bert_base"),
            analysis=Analysis(budget="12m"),
        ),
        spec_id="s" + 63 * "5",
        comparisons=tuple(lab.comparisons),
        threats=(
            Threat(severity="note", text="No A/A calibration is stored for this machine: run `harness aa resnet50`."),
            Threat(severity="warning", text="1 block discarded in bert_base: stolen CPU time 4.1 %, above 2 %."),
        ),
        sessions=(session(0), session(9)),
        outcome_counts={"ok": 171, "oom_host": 1, "not_applicable": 1, "disturbed": 1},
        dropped_blocks=1,
        variance=tuple(
            {"workload": "resnet50", "arm": arm, "within_sd": within, "between_sd": between, "autocorrelation": 0.31}
            for arm, within, between in (("", 0.0101, 0.0047), ("amp_bf16", 0.0113, 0.0052))
        ),
    )
    return Case(
        judgement, tuple(lab.trials), lab.windows, FACTS, lab.samples, context(private_words=("secret-host-17",))
    )


def single() -> Case:
    """One workload, one treatment."""
    lab = Lab()
    lab.compare("resnet50", "amp_bf16+channels_last", 2.14, Word.FASTER, memory=0.61, beyond_rope=True)
    experiment = Experiment(workloads=("resnet50",))
    judgement = Judgement(
        experiment=experiment, spec_id="s1", comparisons=tuple(lab.comparisons), sessions=(session(0),)
    )
    return Case(judgement, tuple(lab.trials), lab.windows, FACTS, lab.samples, context())


def thousand() -> Case:
    """A thousand comparisons: 20 workloads, 50 arms."""
    lab = Lab(windows_each=15)
    for workload in range(20):
        for arm in range(50):
            effect = 0.9 + 0.02 * arm
            verdict = Word.FASTER if effect > 1.01 else Word.SLOWER
            lab.compare(
                f"workload_{workload:02d}",
                f"treatment_{arm:02d}(level={arm})",
                effect,
                verdict,
                memory=0.8,
                blocks=28 if workload == 0 else 4,
            )
    experiment = Experiment(
        question="What of all this helps?", workloads=tuple(f"workload_{index:02d}" for index in range(20))
    )
    judgement = Judgement(
        experiment=experiment, spec_id="s1", comparisons=tuple(lab.comparisons), sessions=(session(0),)
    )
    hashes = {f"trials/{index:05d}.parquet": f"{index:064x}" for index in range(6000)}
    return Case(judgement, tuple(lab.trials), lab.windows, FACTS, lab.samples, context(result_hashes=hashes))


@pytest.fixture(scope="session")
def varied_case() -> Case:
    return varied()


@pytest.fixture(scope="session")
def varied_html(varied_case: Case) -> str:
    return page.render(*varied_case.arguments())


@pytest.fixture(scope="session")
def single_case() -> Case:
    return single()


@pytest.fixture(scope="session")
def thousand_case() -> Case:
    return thousand()


@pytest.fixture
def altered() -> Callable[..., Case]:
    """A case whose judgement has other comparisons."""

    def alter(case: Case, change: Callable[[Comparison], Comparison]) -> Case:
        changed = tuple(change(each) for each in case.judgement.comparisons)
        return replace(case, judgement=replace(case.judgement, comparisons=changed))

    return alter


# ------------------------------------------------------------------------------------------------ a real browser


class Browser:
    """Chromium over the devtools protocol on two pipes: no port, no driver, no network."""

    def __init__(self, profile: Path) -> None:
        executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        assert executable, "chromium is not installed; .ci/run installs it"
        flags = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
            *("--disable-component-update", "--disable-sync", "--disable-quic", "--disable-dev-shm-usage"),
            *("--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}"),
        ]
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        command = 'exec 3<&"$0" 4>&"$1"; shift; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", command, str(theirs_in), str(theirs_out), executable, *flags],
            pass_fds=(theirs_in, theirs_out),
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.call("Network.emulateNetworkConditions", offline)

    def open(self, path: Path, width: int = 1280, height: int = 900, scheme: str = "light") -> None:
        """Load a file at a width, in a colour scheme; `events` then holds what happened since."""
        self.events.clear()
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", metrics)
        self.call("Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]})
        self.call("Page.navigate", {"url": path.as_uri()})
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self._read()

    def evaluate(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", {"expression": expression, "returnByValue": True, "awaitPromise": True})
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def complaints(self) -> list[str]:
        """What the console and the log said since the page was opened: errors, warnings, refused resources."""
        said = []
        for event in self.events:
            if event.get("method") == "Log.entryAdded":
                said.append(event["params"]["entry"]["text"])
            elif event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
                said.append(json.dumps(event["params"]))
        return said

    def requests(self) -> list[str]:
        urls = [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        return [url for url in urls if not url.startswith("data:")]

    def screenshot(self, path: Path, whole: bool = True) -> None:
        options = {"format": "png", "captureBeyondViewport": whole}
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            options["clip"] = {
                "x": 0,
                "y": 0,
                "width": size["width"],
                "height": min(size["height"], 16_000),
                "scale": 1,
            }
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", options)["data"]))

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._call(method, params or {}, self._session)

    def close(self) -> None:
        """End it the polite way; the pipe's end ends it too."""
        self._call("Browser.close", {})
        os.close(self._out)
        os.close(self._in)
        self._process.wait(timeout=20)

    def _call(self, method: str, params: dict[str, Any], session_id: str = "") -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session_id:
            message["sessionId"] = session_id
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            answer = self._read()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result
        raise TimeoutError(method)

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 20)
            assert chunk, "chromium ended"
            self._buffer += chunk
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()
