"""Measurements against the alternatives a user has. A comparison is a ratio within one run.

measure.py           alternate runs, take ratios round by round, refuse the impossible
operations.py        what GPT-2's operations compute and move
roofline.py          this machine's limits, and which of them bounds an operation    lesson 01
workloads.py         the model, the layers and the batches that all of them run
gradient_steps.py    ways to average gradients, and to shard                         bench data-parallel, fsdp
tensor_steps.py      split layers, ours and DTensor's                                bench tensor
message_costs.py     what a message costs, and gradients in few or many messages     lesson 06
link_steps.py        steps over a slow link, by the number of messages               lesson 06
cut_steps.py         the layers of a GPT-2, and what ways to cut them gain           lesson 07
collective_steps.py  ring and tree from messages, gloo's own, and predicted          bench collectives
pipeline_steps.py    the pipe, one lane and PyTorch's pipeline                       bench pipeline
entrants.py          whole trainings, and racing.py: in turn, with reasons           lesson 16
schedule_steps.py    our executor against PyTorch's                                  bench schedules
fidelity.py          predicted against measured (fidelity_picture.py, and
                     attribute.py: the causes of the difference)                     bench fidelity
simulator.py         how fast and how right the simulator is                         bench simulate
equivalence.py       the same numbers from every engine
readme.py            README's tables from the recorded results (marked.py: sections
                     between marks, which the table of lessons is too)
"""

from pllab.bench.gradient_steps import bench_data_parallel
from pllab.bench.measure import Comparison, Implausible, compare
from pllab.bench.pipeline_steps import bench_pipeline

__all__ = ["Comparison", "Implausible", "bench_data_parallel", "bench_pipeline", "compare"]
