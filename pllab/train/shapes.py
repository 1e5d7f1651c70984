"""Operations on the meta device, several times as fast: torch is asked once what shape an operation makes of shapes.

A tensor without values is made by Python code in torch that takes up to milliseconds, and a step of a pipeline makes
the same ones for every layer and micro-batch.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_aten = torch.ops.aten
# They make new tensors and change none; what is not here is asked every time.
_PURE = {
    *(_aten.native_layer_norm.default, _aten.native_layer_norm_backward.default),
    *(_aten.addmm.default, _aten.mm.default, _aten.bmm.default),
    *(_aten.add.Tensor, _aten.mul.Tensor, _aten.mul.Scalar, _aten.div.Tensor, _aten.pow.Tensor_Scalar),
    *(_aten.tanh.default, _aten.tanh_backward.default, _aten.tril.default, _aten.sum.dim_IntList),
    *(_aten._safe_softmax.default, _aten._softmax_backward_data.default, _aten.where.self),
    *(_aten.cat.default, _aten.clone.default, _aten.linalg_vector_norm.default),
}


class _Outline(NamedTuple):
    """All that a tensor on the meta device has."""

    size: torch.Size
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device


class RememberedShapes(TorchDispatchMode):
    """Inside the block, pure operations on outlines that were seen before make tensors without asking torch again.

    Example: `with RememberedShapes(): model(ids).loss.backward()`, for a model and ids on the meta device.
    """

    def __init__(self) -> None:
        super().__init__()
        self._results: dict[object, Any] = {}

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # nothing is compiled here, and switching the compiler off takes longer than an operation

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],  # noqa: ARG002 - torch's signature
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func not in _PURE:
            return func(*args, **options)
        key = func, _outlined(args), _outlined(tuple(options.items()))
        if key not in self._results:
            result = func(*args, **options)
            self._results[key] = _outlined(result)
            return result
        return _made(self._results[key])


def _outlined(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return _Outline(value.shape, value.stride(), value.dtype, value.device)
    return tuple(map(_outlined, value)) if isinstance(value, tuple | list) else value


def _made(outlined: Any) -> Any:
    if isinstance(outlined, _Outline):
        size, stride, dtype, device = outlined
        return torch.empty_strided(size, stride, dtype=dtype, device=device)
    return tuple(map(_made, outlined)) if isinstance(outlined, tuple) else outlined
