"""The cases of exercise 10.3: `checkpointed(stage, x)` runs a stage, keeps its input alone and computes it again.

A layer of the stage keeps a tensor for its backward and counts its calls: if that tensor is alive after the forward,
activations were kept. Large tensors that are new after the forward were kept by the function itself. Truth is the plain
stage under the same seed, bit for bit.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.graph import saved_tensors_hooks

from pllab.lesson.exercise import Asked, Wrong
from pllab.lesson.exercises.lesson_10_keeper import (
    Checkpointed,
    Run,
    dropping_stage,
    frozen_stage,
    go_through,
    inputs_of,
    large_tensors,
    plain,
    token_stage,
    witness_of,
)

_FROZEN = (
    "With a weight that is frozen, or that the forward does not use, your function raised: {error}. Such a weight has "
    "no gradient; ask for none."
)


def same_output(checkpointed: Asked) -> None:
    """Bit for bit with dropout on, and a graph to go back on."""
    stage = dropping_stage()
    x = inputs_of(1)[0].requires_grad_()
    torch.manual_seed(3)
    wanted = stage(x)
    _judge_output(checkpointed.inside(output_of), wanted)


def output_of(checkpointed: Checkpointed) -> Any:
    """In the process of the function: its output."""
    torch.manual_seed(3)
    return checkpointed(dropping_stage(), inputs_of(1)[0].requires_grad_())


def keeps_little(checkpointed: Asked) -> None:
    """What the stage keeps is gone; what autograd got is the input and nothing larger."""
    checkpointed.inside(look_at_memory)


def look_at_memory(checkpointed: Checkpointed) -> None:
    """In the process of the function: what is alive after the forward, and what autograd keeps."""
    stage, x = dropping_stage(), inputs_of(1)[0].requires_grad_()
    witness = witness_of(stage)
    foreign: list[tuple[int, ...]] = []
    own = {x.untyped_storage().data_ptr(), *(weight.untyped_storage().data_ptr() for weight in stage.parameters())}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        # The state of a generator is bytes; it may be saved too.
        if tensor.dtype is not torch.uint8 and tensor.untyped_storage().data_ptr() not in own:
            foreign.append(tuple(tensor.shape))
        return tensor.detach()

    before = {id(tensor) for tensor in large_tensors(x)}
    output = checkpointed(stage, x)
    if witness.alive:
        raise Wrong(
            "activations_kept",
            "After the forward the activations of the stage are still alive: run it without autograd, and only the "
            "input has to stay.",
        )
    known = own | {output.untyped_storage().data_ptr()}
    new = [tensor for tensor in large_tensors(x) if id(tensor) not in before]
    foreign += [tuple(tensor.shape) for tensor in new if tensor.untyped_storage().data_ptr() not in known]
    del output, new
    with saved_tensors_hooks(pack, lambda tensor: tensor):
        checkpointed(stage, x)
    if foreign:
        raise Wrong(
            "more_than_input",
            f"Your function also keeps a tensor of shape {foreign[0]} for backward; the input itself is enough, all "
            "else is computed again.",
        )


def same_gradients(checkpointed: Asked) -> None:
    """Without dropout, so that only the shape of the function is judged; the input has a past of its own."""
    for seeds in ((1,), (1, 2)):
        mine, wanted = _both(checkpointed, seeds, drops=False)
        _judge_gradients(mine, wanted)
    order = (0, 1)
    mine, wanted = _both(checkpointed, (1,), order, drops=False)
    if _all_equal(mine, wanted):
        return
    if all(map(_equal, mine.parameters, _of_the_last(len(order)))):
        raise Wrong(
            "overwritten",
            "One micro-batch is right, and of two the parameters have the gradients of the last alone: gradients add "
            "up, so add to what is there where you set one yourself, or let a backward do it.",
        )
    raise Wrong("other_gradients", "Without dropout one micro-batch is right, and two of them on one stage are not.")


def first_stage(checkpointed: Asked) -> None:
    """The input is data and needs no gradient; the parameters learn nevertheless."""
    if not all(map(_equal, checkpointed.inside(first_stage_gradients), first_stage_gradients(plain))):
        raise Wrong("other_gradients", "With an input that needs no gradient the parameters' gradients are others.")


def first_stage_gradients(checkpointed: Checkpointed) -> list[torch.Tensor | None]:
    """In the process of the function: the gradients of a stage whose input needs none."""
    stage, x = dropping_stage().eval(), inputs_of(1)[0]
    output = checkpointed(stage, x)
    if not output.requires_grad:
        raise Wrong(
            "no_graph_without_input_gradient",
            "The first stage gets data that needs no gradient, and then your output has no graph: its parameters would "
            "never learn. A Function has a graph if one of its tensors needs a gradient, so pass the parameters too.",
        )
    output.square().sum().backward()
    return [weight.grad for weight in stage.parameters()]


def tokens_and_frozen(checkpointed: Asked) -> None:
    """Token numbers, which cannot ask for a gradient; a frozen weight, and one that the forward does not use."""
    for learns, where in _EMBEDDINGS.items():
        _judge_parameters(checkpointed.inside(token_gradients, learns), token_gradients(plain, learns), where)
    where = "a frozen weight and an unused one"
    _judge_parameters(checkpointed.inside(frozen_gradients), frozen_gradients(plain), where)


_EMBEDDINGS = {True: "token numbers", False: "token numbers and a frozen embedding"}


def frozen_gradients(checkpointed: Checkpointed) -> list[torch.Tensor | None]:
    """In the process of the function: the gradients of a stage with a frozen weight and an unused one."""
    stage, x = frozen_stage(), inputs_of(1)[0].requires_grad_()
    try:
        checkpointed(stage, x).square().sum().backward()
    except RuntimeError as error:
        raise Wrong("frozen_weight", _FROZEN.format(error=error)) from None
    return [weight.grad for weight in stage.parameters()]


def token_gradients(checkpointed: Checkpointed, embedding_learns: bool) -> list[torch.Tensor | None]:
    """In the process of the function: the gradients of a stage that looks token numbers up."""
    stage, tokens = token_stage(), torch.tensor([[3, 0, 5], [5, 2, 1]])
    stage[0].requires_grad_(embedding_learns)
    where = _EMBEDDINGS[embedding_learns]
    output = checkpointed(stage, tokens)
    if not output.requires_grad:
        raise Wrong("no_graph", f"With {where} your output has no graph, so no weight of the stage ever learns.")
    try:
        output.square().sum().backward()
    except RuntimeError as error:
        if "floating point" not in str(error):
            raise Wrong("frozen_weight", _FROZEN.format(error=error)) from None
        raise Wrong(
            "token_numbers",
            f"x may be token numbers, and then it cannot ask for a gradient: {error}. Let the copy ask for one only "
            "where x did.",
        ) from None
    return [weight.grad for weight in stage.parameters()]


def same_masks(checkpointed: Asked) -> None:
    """With dropout and one micro-batch."""
    mine, wanted = _both(checkpointed, (1,))
    if not _all_equal(mine, wanted):
        raise Wrong(
            "generator_not_restored",
            "Without dropout your gradients are right and with dropout they are not: the second forward drops other "
            "numbers than the first. Keep torch.get_rng_state() before the first and set it before the second.",
        )


def several(checkpointed: Asked) -> None:
    """All forwards through all stages, then the backwards, in three orders."""
    for seeds, order in (((1, 2), (2, 1, 0)), ((1,), (0, 1)), ((1, 2, 3), (3, 0, 4, 1, 2))):
        mine, wanted = _both(checkpointed, seeds, order)
        told = f"One micro-batch is right, and of {len(order)} on {len(seeds)} stage{'s' if len(seeds) > 1 else ''}"
        if not all(map(torch.equal, mine.outputs, wanted.outputs)):
            raise Wrong(
                "generator_put_back",
                f"{told} a later one has another output than the plain stage: after your first forward the generator "
                "has to go on as if you were not there. Put it back after the second only.",
            )
        if not _all_equal(mine, wanted):
            raise Wrong(
                "state_of_another",
                f"{told} the gradients are not the plain ones: between a forward and its backward the generator has "
                "moved on. Every call needs the state of its own beginning; keep it in ctx.",
            )


def leaves_no_trace(checkpointed: Asked) -> None:
    """Two runs of the stage for each micro-batch, and the generator where the plain stage leaves it."""
    for order in ((0,), (3, 2, 1, 0)):
        mine, wanted = _both(checkpointed, (1,), order)
        count = len(order)
        if mine.calls != [2 * count]:
            raise Wrong(
                "number_of_forwards",
                f"For {count} micro-batch{'es' if count > 1 else ''} the stage ran {mine.calls[0]} times, and twice "
                f"each is {2 * count}: once in the forward, once in the backward.",
            )
        if not torch.equal(mine.state, wanted.state):
            raise Wrong(
                "generator_moved",
                "After your backward the random generator stands elsewhere than after the plain one, so whatever draws "
                "next draws numbers that were drawn before. Put its state back; torch.random.fork_rng() does.",
            )


def _both(
    checkpointed: Asked, seeds: Sequence[int], order: Sequence[int] = (0,), *, drops: bool = True
) -> tuple[Run, Run]:
    """The stages through the function, and as they are."""
    return checkpointed.inside(gone_through, seeds, order, drops), gone_through(plain, seeds, order, drops)


def gone_through(checkpointed: Checkpointed, seeds: Sequence[int], order: Sequence[int], drops: bool) -> Run:
    """In the process of the function: several micro-batches through a stage for each seed."""
    return go_through(checkpointed, [dropping_stage(seed).train(drops) for seed in seeds], order)


def _judge_output(output: Any, wanted: torch.Tensor) -> None:
    if output is None:
        raise Wrong("nothing", "checkpointed returned None; return the stage's output.")
    if not isinstance(output, torch.Tensor) or output.shape != wanted.shape:
        raise Wrong("no_output", f"checkpointed should return the stage's output, and it returned {output!r}.")
    if not torch.equal(output, wanted):
        raise Wrong(
            "other_output",
            "Under one seed your output differs from stage(x): draw no other random numbers before the stage runs, and "
            "set no seed of your own.",
        )
    if not output.requires_grad:
        raise Wrong("no_graph", "Your output has no graph: backward can never reach the stage. Use a Function.")


def _judge_gradients(mine: Run, wanted: Run) -> None:
    if _all_equal(mine, wanted):
        return
    if any(grad is None or not grad.any() for grad in mine.inputs):
        raise Wrong(
            "no_input_gradient",
            "The input of the stage gets no gradient, so the stages before it learn nothing: return leaf.grad.",
        )
    if any(grad is None for grad in mine.parameters):
        raise Wrong("no_parameter_gradient", "The stage's parameters get no gradient.")
    pairs = list(zip(mine.parameters, wanted.parameters, strict=True))
    if all(grad is not None and right is not None and torch.equal(grad, 2 * right) for grad, right in pairs):
        raise Wrong(
            "counted_twice",
            "The parameters' gradients are twice what they should be: backward of the second graph has added them "
            "already, so return None for them.",
        )
    if not all(_equal(grad, right) for grad, right in zip(mine.inputs, wanted.inputs, strict=True)):
        raise Wrong(
            "other_input_gradient",
            "The gradient of the input is not the plain stage's. Backward starts at the second output with the "
            "gradient that has arrived, torch.autograd.backward(output, gradient), and you return leaf.grad.",
        )
    raise Wrong("other_gradients", "The parameters' gradients are not those of the plain stage.")


def _judge_parameters(mine: list[torch.Tensor | None], wanted: list[torch.Tensor | None], where: str) -> None:
    for grad, right in zip(mine, wanted, strict=True):
        if (grad is None) is not (right is None):
            raise Wrong("other_gradients", f"With {where}, the wrong parameters get gradients: those of stage(x) do.")
        if right is not None and not _equal(grad, right):
            raise Wrong("other_gradients", f"With {where} the parameters' gradients are not those of stage(x).")


def _of_the_last(count: int) -> list[torch.Tensor | None]:
    """The gradients of the last of so many micro-batches alone, without dropout."""
    stage = dropping_stage().eval()
    stage(inputs_of(count)[-1]).square().sum().backward()
    return [weight.grad for weight in stage.parameters()]


def _all_equal(mine: Run, wanted: Run) -> bool:
    pairs = zip((*mine.parameters, *mine.inputs), (*wanted.parameters, *wanted.inputs), strict=True)
    return all(_equal(grad, right) for grad, right in pairs)


def _equal(grad: torch.Tensor | None, right: torch.Tensor | None) -> bool:
    return grad is not None and right is not None and torch.equal(grad, right)
