"""GPT-2 from transformers that can run on several devices, one after another or as a pipeline.

It is a `GPT2LMHeadModel`: the same weights under the same names, `from_pretrained` and `save_pretrained` included.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel
from transformers.modeling_outputs import CausalLMOutputWithCrossAttentions

from pllab import accelerator
from pllab.comm.devices import num_gpus
from pllab.data import IGNORED
from pllab.models.layers import cut, layer_costs, layers_of
from pllab.parallel.tensor import split_of
from pllab.pipeline import Pipe, balance


class GPT2LMHeadModelParallel(GPT2LMHeadModel):
    """A GPT-2 whose stages live on several devices.

    Example:

        model = GPT2LMHeadModelParallel(gpt2_config("small"))
        model.parallelize(["cpu:0", "cpu:1"])           # one device works at a time
        model.prepare_pipeline_parallel(split_size=2)   # micro-batches of 2 rows, devices overlap
        model(input_ids, labels=labels).loss.backward() # ids and labels (rows, time)
        model.pipe.last_timeline

    Embedding, final norm, head and loss run inside the stages, which are cut to balance. With labels a
    parallel model returns the loss and no logits, so that logits never leave the last device. Labels follow
    transformers: the model shifts them, -100 is not predicted. The tied embedding stays one parameter.

    Source: the course's `GPT2LMHeadModelParallel`; Megatron-LM for the tied embedding. Lessons 07 and 16.
    """

    pipe: Pipe | None = None
    """The pipe the model runs on, or None while it is not parallel."""

    def __init__(self, config: GPT2Config) -> None:
        super().__init__(config)
        self.loss_type = "ForCausalLM"  # transformers looks it up by class name, and this class is not in its table

    def parallelize(self, devices: Sequence[torch.device | str] | None = None, *, time: int = 128) -> None:
        """Cut the model into balanced stages, one per device, that run one after another.

        That is a pipeline with a single micro-batch. `devices` defaults to all GPUs, or to two CPU lanes; `time`
        is the number of tokens a row will have, for the balance.

        Raises:
            ValueError: there are more devices than layers, a device does not exist, or ranks have split the layers.
        """
        if any((split := split_of(p)) and p.shape[split.dim] < split.size for p in self.parameters()):
            raise ValueError(
                "ranks have split the layers of this model, and lanes would order their messages differently on each; "
                "parallelize a whole model, or give the stages to ranks"
            )
        devices = default_devices() if devices is None else list(devices)
        sizes = balance(layer_costs(self.config, time), len(devices))
        partitions = cut(layers_of(self), sizes)
        self._use(partitions, devices, num_microbatches=1)

    def prepare_pipeline_parallel(
        self, split_size: int | None = None, *, num_microbatches: int | None = None, recompute: bool = False
    ) -> None:
        """Run the stages of `parallelize` as a pipeline, in micro-batches of `split_size` rows (default 1).

        Raises:
            ValueError: split_size and num_microbatches are both given, or below 1.
        """
        if self.pipe is None:
            self.parallelize()
        assert self.pipe is not None
        partitions = [part for part in self.pipe.partitions if isinstance(part, nn.Sequential)]
        devices = self.pipe.devices
        self._use(partitions, devices, split_size, num_microbatches=num_microbatches, recompute=recompute)

    def close(self) -> None:
        """End the workers; the model runs as a plain GPT-2 again, on its first device."""
        if self.pipe is not None:
            self.pipe.close()
            self.pipe.partitions.to(self.device)
        self.pipe = None

    def forward(
        self,
        input_ids: torch.Tensor | None = None,
        labels: torch.Tensor | None = None,
        num_items_in_batch: int | torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        use_cache: bool | None = None,
        **kwargs: Any,
    ) -> CausalLMOutputWithCrossAttentions:
        """Logits, or with labels the loss: its sum over the targets divided by `num_items_in_batch`.

        `num_items_in_batch` defaults to the number of targets in this batch; ranks that share a batch pass the
        number over all of them.

        Raises:
            ValueError: a parallel model gets an argument that only a plain one takes (a cache, a padding mask).
        """
        if self.pipe is None:
            options = {"attention_mask": attention_mask, "use_cache": use_cache}
            kwargs |= options | ({"num_items_in_batch": num_items_in_batch} if labels is not None else {})
            return super().forward(input_ids=input_ids, labels=labels, **kwargs)
        _refuse(attention_mask, kwargs)
        if labels is None:
            return CausalLMOutputWithCrossAttentions(logits=self.pipe(input_ids))
        losses = self.pipe((input_ids, labels))
        if num_items_in_batch is None:
            num_items_in_batch = (labels[:, 1:] != IGNORED).sum().clamp(min=1)
        if isinstance(num_items_in_batch, torch.Tensor):
            num_items_in_batch = num_items_in_batch.to(losses.device)
        return CausalLMOutputWithCrossAttentions(loss=losses.sum() / num_items_in_batch)

    def _use(
        self,
        partitions: Sequence[nn.Sequential],
        devices: Sequence[torch.device | str],
        split_size: int | None = None,
        **options: Any,
    ) -> None:
        pipe = Pipe.from_partitions(partitions, devices, split_size, **options)
        if self.pipe is not None:
            self.pipe.close()
        # From the last to the first, so that a tied embedding ends up where it is looked up.
        for partition, device in reversed(list(zip(partitions, pipe.devices, strict=True))):
            partition.to(device.type if device.type == "cpu" else device)
        # Past nn.Module, which would register the stages a second time: the state dict stays transformers'.
        object.__setattr__(self, "pipe", pipe.train(self.training))


def default_devices() -> list[torch.device]:
    """All GPUs; with one GPU two stages share it; with none, two CPU lanes."""
    count = num_gpus()
    if count == 0:
        return [torch.device("cpu", 0), torch.device("cpu", 1)]
    return [accelerator.gpu(index % count) for index in range(max(2, count))]


def _refuse(attention_mask: torch.Tensor | None, kwargs: dict[str, Any]) -> None:
    if attention_mask is not None and not bool(attention_mask.all()):
        raise ValueError("a parallel GPT-2 takes no attention_mask; pad rows on the right and label padding with -100")
    unknown = sorted(name for name, value in kwargs.items() if value is not None and name != "return_dict")
    if unknown:
        told = f"a parallel GPT-2 takes no {', '.join(unknown)}, only input_ids and labels, and keeps no cache"
        raise ValueError(f"{told}; call close() before generate()")
