"""A pretended GPU: takes the place of pllab/accelerator.py, so that the code for GPUs runs on a CPU build of torch.

The device `gpu` is torch's PrivateUse1. Its tensors hold real values, in a tensor of the CPU, `.raw`, so results are
right. As on CUDA they refuse to meet tensors of the CPU, have no numpy(), and run their backward on a thread of
autograd's for the device. The backend `pccl` stands for nccl: it carries tensors of the GPU alone; gloo carries them
underneath.

`environment(4)` is for processes that shall have four GPUs; all four are `gpu:0`. So it cannot show: a wrong index, a
missing wait between streams (work runs at once, in order), overlap, speed, the order of messages inside nccl, contexts,
pinned memory, compilation, fused attention.
"""

import importlib
import os
import threading
import time
import warnings
import weakref
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as c10d
from torch.utils import _pytree as pytree
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

KIND: Final = "gpu"
BACKEND: Final = "pccl"
Backend = Literal["gloo", "pccl"]
CPU = torch.device("cpu")
NUM_GPUS = int(os.environ.get("PRETEND_GPUS", "0"))
seen: Counter[str] = Counter()  # how often each operation ran on the GPU in this process
deadlines: set[timedelta] = set()  # of the groups that were made
bytes_held = {"now": 0, "peak": 0}
aten = torch.ops.aten


def environment(num_gpus: int) -> dict[str, str]:
    """The variables of a process, and of all that it starts, on a machine with so many GPUs."""
    paths = [str(Path(__file__).parent / "pretend"), str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PRETEND_GPUS": str(num_gpus), "PYTHONPATH": os.pathsep.join(filter(None, paths))}


# What pllab/accelerator.py offers.


class Event(torch.Event):
    """Torch's event knows no time on a device in Python."""

    def record(self, stream: torch.Stream | None = None) -> None:
        super().record(stream)
        self.at = time.perf_counter()

    def synchronize(self) -> None:
        """Work is done when its call returns."""

    def elapsed_time(self, end: "Event") -> float:
        return (end.at - self.at) * 1e3


def gpu(index: int) -> torch.device:
    return torch.device(KIND, 0)


def name_of(index: int) -> str:
    return "pretended GPU"


def synchronize(device: torch.device) -> None:
    seen["synchronize"] += 1


def peak_bytes(device: torch.device) -> int:
    return bytes_held["peak"]


def reset_peak_bytes(device: torch.device) -> None:
    bytes_held["peak"] = bytes_held["now"]


# The device. What torch asks of its module, as it asks torch.cuda.


class Module:
    """`torch.gpu`."""

    Event, Stream = Event, torch.Stream
    _initialized = True

    def is_available(self) -> bool:
        return NUM_GPUS > 0

    def is_initialized(self) -> bool:
        return True

    def _lazy_init(self) -> None: ...
    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return NUM_GPUS

    def current_device(self) -> int:
        return 0

    def set_device(self, device: object) -> None: ...
    def current_stream(self, device: object = None) -> torch.Stream:
        return torch.accelerator.current_stream()

    def stream(self, stream: torch.Stream) -> torch.Stream:
        return stream

    def manual_seed(self, seed: int) -> None: ...
    def manual_seed_all(self, seed: int) -> None: ...
    def get_rng_state(self, device: object = 0) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, device: object = 0) -> None:
        torch.set_rng_state(state)

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16, torch.bfloat16]

    def synchronize(self, device: object = None) -> None: ...


class GpuTensor(torch.Tensor):
    """A tensor on gpu:0, whose values are those of `.raw`."""

    raw: torch.Tensor

    @staticmethod
    def __new__(cls, raw: torch.Tensor) -> "GpuTensor":
        layout = {"strides": raw.stride(), "storage_offset": raw.storage_offset(), "dtype": raw.dtype}
        made = torch.Tensor._make_wrapper_subclass(cls, raw.size(), device=gpu(0), requires_grad=False, **layout)
        made.raw = raw
        return made

    def untyped_storage(self) -> Any:
        return self.raw.untyped_storage()

    def data_ptr(self) -> int:
        return self.raw.data_ptr()

    def tolist(self) -> Any:
        return self.raw.tolist()

    def record_stream(self, stream: torch.Stream) -> None: ...
    def __array__(self, dtype: object = None) -> Any:
        return self.numpy()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"can't convert {KIND}:0 device type tensor to numpy. Use Tensor.cpu() first")

    @property
    def data(self) -> torch.Tensor:
        return self.detach()  # type: ignore[override]

    @data.setter
    def data(self, value: "GpuTensor") -> None:
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self.raw = value.raw

    def __reduce_ex__(self, protocol: Any) -> Any:
        is_parameter = bool(getattr(self, "_is_param", False))
        return rebuild, (self.raw, self.requires_grad, is_parameter)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            copied = rebuild(self.raw.clone(), self.requires_grad, bool(getattr(self, "_is_param", False)))
            copied.__dict__.update({k: v for k, v in self.__dict__.items() if k not in ("raw", "_is_param")})
            memo[id(self)] = copied
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def rebuild(raw: torch.Tensor, requires_grad: bool, is_parameter: bool) -> torch.Tensor:
    made = GpuTensor(raw)
    return torch.nn.Parameter(made, requires_grad) if is_parameter else made.requires_grad_(requires_grad)


COPIES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default, aten._copy_from_and_resize.default}
INDEXES = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}
WHOLE = {aten.cat.default, aten.stack.default}  # refuse even a number without dims


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Run an operation on the raw tensors, if all are where a kernel of a GPU could read them."""
    tensors = [one for one in pytree.tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
    is_here = any(isinstance(one, GpuTensor) for one in tensors)
    if is_here and func.namespace != "c10d":
        refuse_strangers(func, args, tensors)
    target = None if kwargs.get("device") is None else torch.device(kwargs["device"])
    wraps = is_here if target is None else target.type == KIND
    if func is aten.copy_.default:
        wraps = isinstance(args[0], GpuTensor)
    args, kwargs = pytree.tree_map_only(GpuTensor, lambda one: one.raw, (args, kwargs))
    if target is not None:
        kwargs["device"] = target if target.type == "meta" else CPU
    if "c10d" in func.namespace:
        args = through_gloo(args)
    if is_here:
        seen["message" if "c10d" in func.namespace else func.overloadpacket.__name__] += 1
    out = func(*args, **kwargs)
    known = {id(one.raw): one for one in tensors if isinstance(one, GpuTensor)}

    def wrapped(one: torch.Tensor) -> torch.Tensor:
        if not wraps or one.is_meta or isinstance(one, GpuTensor):
            return one
        return known[id(one)] if id(one) in known else held(GpuTensor(one))

    return pytree.tree_map_only(torch.Tensor, wrapped, out)


def refuse_strangers(func: Any, args: Any, tensors: list[torch.Tensor]) -> None:
    """What a GPU's kernel says of a tensor that is elsewhere; a number without dims may come from the CPU."""
    if func in COPIES:
        return
    if func in INDEXES:
        apart = [] if isinstance(args[0], GpuTensor) else [args[0]]
    else:
        apart = [one for one in tensors if one.device.type != KIND and (one.dim() or func in WHOLE)]
        if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor) and args[0].device.type != KIND:
            apart.append(args[0])
    if apart:
        place = apart[0].device
        raise RuntimeError(f"Expected all tensors to be on the same device, but found {KIND}:0 and {place} in {func}")


def held(tensor: GpuTensor) -> GpuTensor:
    """Count the bytes of a tensor that is no view, until it goes."""
    if tensor.raw._base is None:
        hold(tensor.raw.nbytes)
        weakref.finalize(tensor.raw, hold, -tensor.raw.nbytes)
    return tensor


_lock = threading.Lock()


def hold(num_bytes: int) -> None:
    with _lock:
        bytes_held["now"] += num_bytes
        bytes_held["peak"] = max(bytes_held["peak"], bytes_held["now"])


# The backend. A group's messages go to its shadow, a group of the CPU's whose backend is gloo.
_shadows: dict[str, dist.ProcessGroup] = {}


def make_group(options: Any, _: object = None) -> Any:
    host = c10d.ProcessGroupGloo._Options()  # type: ignore[attr-defined]
    host._devices = [c10d.ProcessGroupGloo.create_default_device()]  # type: ignore[attr-defined]
    host._threads, host._timeout = 2, options.timeout
    deadlines.add(options.timeout)
    inner = c10d.ProcessGroupGloo(options.store, options.group_rank, options.group_size, host)  # type: ignore[attr-defined]
    shadow = dist.ProcessGroup(options.store, options.group_rank, options.group_size)
    shadow._set_default_backend(dist.ProcessGroup.BackendType.GLOO)
    shadow._register_backend(CPU, dist.ProcessGroup.BackendType.GLOO, inner)
    shadow._set_group_name(f"shadow of {options.group_id}")
    c10d._register_process_group(f"shadow of {options.group_id}", shadow)
    _shadows[options.group_id] = shadow
    return inner


def through_gloo(args: Any) -> list[Any]:
    """The arguments of a message with the shadow in the place of its group."""
    args = list(args)
    for place, one in enumerate(args):
        if isinstance(one, torch.ScriptObject) and "ProcessGroup" in str(one._type()):
            args[place] = _shadows[dist.ProcessGroup.unbox(one).group_name].boxed()
        elif isinstance(one, str) and one in _shadows:
            args[place] = f"shadow of {one}"
    return args


def without_average(send: Any, names: tuple[str, ...]) -> Any:
    """Gloo has no average: divide, then sum."""

    def sending(*args: Any, **options: Any) -> Any:
        options = dict(zip(names, args, strict=False)) | options
        if options.get("op") == dist.ReduceOp.AVG:
            options[names[-4]].div_(dist.get_world_size(options.get("group")))
            options["op"] = dist.ReduceOp.SUM
        return send(**options)

    return sending


def without_device(start: Any) -> Any:
    """With `device_id`, torch would make communicators ahead and split them, which gloo cannot."""

    def starting(*args: Any, device_id: object = None, **options: Any) -> Any:
        return start(*args, **options)

    return starting


def on_raw(make: Any) -> Any:
    """torch.tensor and torch.as_tensor make a tensor without asking the device."""

    def made(data: Any, *, dtype: Any = None, device: Any = None, **options: Any) -> torch.Tensor:
        if device is None or torch.device(device).type != KIND:
            return make(data, dtype=dtype, device=device, **options)
        return make(data, dtype=dtype, **options).to(device)

    return made


_Generator, _swap = torch.Generator, torch.utils.swap_tensors


class GeneratorOfTheCpu(type):
    """A generator for the GPU is one for the CPU."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _Generator)

    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        return _Generator("cpu" if torch.device(device).type == KIND else device)


def swap_with_marks(one: torch.Tensor, other: torch.Tensor) -> None:
    """A parameter keeps its attributes on its way to the GPU."""
    other.__dict__.update({name: value for name, value in one.__dict__.items() if name not in other.__dict__})
    _swap(one, other)


def plug_in() -> None:
    """Make the device and its backend known to torch."""
    torch.utils.rename_privateuse1_backend(KIND)
    _setup_privateuseone_for_python_backend(KIND, backend_module=Module())
    library.fallback(lambda op, *args, **kwargs: run(op, args, kwargs), "PrivateUse1")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("torch.distributed.optim")  # its scripts call torch.tensor, so before that is replaced
    torch.Generator = GeneratorOfTheCpu("Generator", (), {})  # type: ignore[misc]
    torch.tensor, torch.as_tensor = on_raw(torch.tensor), on_raw(torch.as_tensor)
    torch.__future__.set_swap_module_params_on_conversion(True)  # else tied weights come apart on their way to the GPU
    torch.utils.swap_tensors = swap_with_marks
    dist.Backend.register_backend(BACKEND, make_group, extended_api=True, devices=[KIND])
    dist.init_process_group = without_device(dist.init_process_group)
    dist.all_reduce = without_average(dist.all_reduce, ("tensor", "op", "group", "async_op"))
    for name in ("reduce_scatter_tensor", "reduce_scatter_single"):
        if hasattr(dist, name):
            setattr(dist, name, without_average(getattr(dist, name), ("output", "input", "op", "group", "async_op")))


library = torch.library.Library("_", "IMPL")
if NUM_GPUS:
    plug_in()
