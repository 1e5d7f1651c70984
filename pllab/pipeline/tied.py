"""Two copies of one weight, for a weight that two stages need and neither can reach in the other's memory.

GPT-2 ties its embedding: the matrix that looks a token up (first stage) is also the matrix that scores the next
token (last stage). As one parameter it has one gradient, the sum of both uses. As two copies it has two halves.
"""

import torch
from torch import nn


def tie_gradients(first: nn.Parameter, last: nn.Parameter) -> None:
    """Give both copies of a tied weight the sum of their gradients, so that they take the same step.

    Call it after backward and before the optimizer's step, on copies that began with equal values. A copy without
    a gradient counts as zero.

    Example: gradients 1 and 10 before the call, 11 and 11 after it.

    Source: Megatron-LM, where an all-reduce between the first and the last stage does it. Lesson 07.
    """
    grads = [copy.grad for copy in (first, last) if copy.grad is not None]
    if not grads:
        return
    for copy in (first, last):
        copy.grad = torch.stack([grad.to(copy.device) for grad in grads]).sum(0)
