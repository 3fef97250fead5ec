"""The one door to NVML: what the driver answers is a value or a state, never an exception. Tests replace `load`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

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
