"""Measurements against the alternatives a user has. A comparison is a ratio within one run.

measure.py         alternate runs, take ratios round by round, refuse the impossible
workloads.py       the model, the layers and the batches that the benches run
roofline.py        this machine's limits, GPT-2's operations, and what bounds each     lesson 01
message_costs.py   what a message costs, gradients in few or many, over a slow link    lesson 06
cut_steps.py       the layers of a GPT-2, and what ways to cut them gain               lesson 07
zero_steps.py      what ZeRO's stages hold and send                                    lesson 13
entrants.py        whole trainings; racing.py: in turn, with reasons                   lesson 16
missing_time.py    where a pipe loses time against its prediction                      lesson 16
rivals.py          ours against PyTorch's class for the same job       bench data-parallel, fsdp, tensor, pipeline
fidelity.py        predicted against measured                                          bench fidelity
document.py        docs/measured.md from the recorded results
"""

from pllab.bench.measure import Comparison, Implausible, compare

__all__ = ["Comparison", "Implausible", "compare"]
