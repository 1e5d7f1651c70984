"""The bytes of a plain model, of which nothing is counted twice."""

import torch
from torch import nn

from pllab.parallel.byte_count import KINDS, held_bytes


def test_parameters_gradients_and_moments_of_adam():
    model = nn.Linear(100, 10, bias=False)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    assert held_bytes(model, list(model.parameters()), [optimizer]) == dict.fromkeys(KINDS, 0) | {"parameters": 4000}
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    held = held_bytes(model, list(model.parameters()), [optimizer])
    assert held == {"parameters": 4000, "gathered": 0, "gradients": 4000, "optimizer": 8004, "messages": 0}


def test_tensors_on_one_storage_count_once():
    flat = torch.zeros(100)
    parameters = [nn.Parameter(part) for part in flat.split(50)]
    assert held_bytes(nn.Identity(), parameters, [])["parameters"] == 400
