"""What a device can do at most: dense operations a second by type, as its maker's data sheet states them.

Only devices whose numbers are known exactly are listed, under the name that the driver gives; anything else has no
peak rather than a guessed one. Figures with sparsity are halved.
"""

from __future__ import annotations

from collections.abc import Mapping

TERA = 1e12


def _ampere_or_later(single: float, tensor32: float, half: float) -> Mapping[str, float]:
    return {
        "float32": single * TERA,
        "tensorfloat32": tensor32 * TERA,
        "bfloat16": half * TERA,
        "float16": half * TERA,
    }


_A100 = _ampere_or_later(19.5, 156.0, 312.0)
"""https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf"""
_H100_SXM = _ampere_or_later(67.0, 494.5, 989.5)
"""https://resources.nvidia.com/en-us-tensor-core/nvidia-tensor-core-gpu-datasheet; the H200 computes as fast:
https://resources.nvidia.com/en-us-data-center-overview-mc/en-us-data-center-overview/hpc-datasheet-sc23-h200"""
_H100_PCIE = _ampere_or_later(51.0, 378.0, 756.0)

PEAKS: Mapping[str, Mapping[str, float]] = {
    "NVIDIA A100-SXM4-40GB": _A100,
    "NVIDIA A100-SXM4-80GB": _A100,
    "NVIDIA A100-PCIE-40GB": _A100,
    "NVIDIA A100 80GB PCIe": _A100,
    "NVIDIA H100 80GB HBM3": _H100_SXM,
    "NVIDIA H100 PCIe": _H100_PCIE,
    "NVIDIA H200": _H100_SXM,
}
"""By device name, then by the type of the products' operands; in operations a second."""


def peak_flops(device: str, dtype: str | None) -> float | None:
    """The peak of one device in one type; None where it is not known."""
    return PEAKS.get(device, {}).get(dtype or "")
