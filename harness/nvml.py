"""The one door to NVML: what the driver answers is a value or a state, never an exception. Tests replace `load`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

State = Literal["ok", "unsupported", "denied", "absent", "error"]


@dataclass(frozen=True)
class Answer:
    """What one question brought: a value, or why there is none."""

    value: Any
    state: State
    reason: str = ""


class Nvml:
    """An initialised NVML. Device handles come from `devices` or `by_uuid`, and go into `ask`."""

    def __init__(self, api: Any) -> None:
        self.api = api

    def ask(self, function: str, *arguments: Any) -> Answer:
        """Call one NVML function by its name without the prefix: `ask("DeviceGetName", handle)`."""
        return _answer(self.api, getattr(self.api, f"nvml{function}", None), *arguments)

    def devices(self) -> list[Any]:
        """Handles of all physical devices, in PCI order."""
        count = self.ask("DeviceGetCount").value or 0
        answers = [self.ask("DeviceGetHandleByIndex", index) for index in range(count)]
        return [answer.value for answer in answers if answer.state == "ok"]

    def by_uuid(self, uuid: str) -> Any | None:
        """The handle of one device or MIG instance, whatever its index is at the moment."""
        return self.ask("DeviceGetHandleByUUID", uuid).value


class Counters:
    """The performance counters (GPM) of one GPU: what happened between two looks. Hopper and later have them."""

    IDS: ClassVar[dict[str, int]] = {"sm_activity": 2, "tensor_activity": 5, "dram_activity": 10}
    """NVML_GPM_METRIC_SM_UTIL, _ANY_TENSOR_UTIL and _DRAM_BW_UTIL, in percent."""

    def __init__(self, nvml: Nvml, device: Any) -> None:
        self.nvml, self.device = nvml, device
        supported = nvml.ask("GpmQueryDeviceSupport", device).value
        self.samples: list[Any] = []
        """The latest two; NVML fills in the older one anew."""
        if supported is not None and supported.isSupportedDevice:
            answers = [nvml.ask("GpmSampleAlloc") for _ in range(2)]
            self.samples = [answer.value for answer in answers if answer.state == "ok"]
        self.is_first = True

    def look(self) -> dict[str, float]:
        """The share of each since the last look; empty at the first, and where the GPU has no such counters."""
        if len(self.samples) < 2 or self.nvml.ask("GpmSampleGet", self.device, self.samples[0]).state != "ok":
            return {}
        self.samples.reverse()  # now the older one stands first, to be filled in next
        first, self.is_first = self.is_first, False
        return {} if first else self._between(*self.samples)

    def _between(self, older: Any, newer: Any) -> dict[str, float]:
        question = self.nvml.api.c_nvmlGpmMetricsGet_t()
        question.version = self.nvml.api.NVML_GPM_METRICS_GET_VERSION
        question.numMetrics, question.sample1, question.sample2 = len(self.IDS), older, newer
        for place, metric in enumerate(self.IDS.values()):
            question.metrics[place].metricId = metric
        if self.nvml.ask("GpmMetricsGet", question).state != "ok":
            return {}
        answers = question.metrics[: len(self.IDS)]
        if any(answer.nvmlReturn for answer in answers):
            return {}
        return {name: answer.value / 100 for name, answer in zip(self.IDS, answers, strict=True)}


def open_nvml() -> tuple[Nvml | None, Answer]:
    """NVML if this machine has it, and the driver's version or why there is none."""
    api = load()
    if api is None:
        return None, Answer(None, "absent", "nvidia-ml-py is not installed")
    started = _answer(api, api.nvmlInit)
    if started.state != "ok":
        return None, started
    nvml = Nvml(api)
    return nvml, nvml.ask("SystemGetDriverVersion")


def load() -> Any | None:
    """The pynvml module, if it is installed."""
    try:
        import pynvml
    except ImportError:
        return None
    return pynvml


def _answer(api: Any, function: Any, *arguments: Any) -> Answer:
    if function is None:
        return Answer(None, "unsupported", "this nvidia-ml-py has no such function")
    try:
        value = function(*arguments)
    except api.NVMLError as error:
        return Answer(None, _state(api, error), str(error))
    return Answer(value.decode() if isinstance(value, bytes) else value, "ok")


def _state(api: Any, error: Any) -> State:
    states: dict[int, State] = {
        api.NVML_ERROR_NOT_SUPPORTED: "unsupported",
        api.NVML_ERROR_FUNCTION_NOT_FOUND: "unsupported",
        api.NVML_ERROR_NO_PERMISSION: "denied",
        api.NVML_ERROR_NOT_FOUND: "absent",
        api.NVML_ERROR_LIBRARY_NOT_FOUND: "absent",
        api.NVML_ERROR_DRIVER_NOT_LOADED: "absent",
    }
    return states.get(getattr(error, "value", -1), "error")
