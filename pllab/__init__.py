"""The parallel-training lab: GPT-2 trained by many devices, drawn, checked and measured.

The rooms, from the ground floor up; a room imports its own floor's room and the floors below:

    floor 6   cli                                the command line
    floor 5   lesson                             notebook glue and checks
    floor 4   train       bench                  one trainer; measurements against baselines
    floor 3   models                             GPT-2 cut into stages
    floor 2   parallel    pipeline    show       algorithms that know no model; pictures that know no torch
    floor 1   comm  data  simulate  traces       process groups; datasets; the virtual clock; recorded runs
    floor 0   schedule    timeline               what runs where in which order; what happened when
              transfers   autopsy                collectives as messages; what stopped a job
    beneath   arguments, files, memory, accelerator

Importing `pllab` imports none of them, so it is instant.
"""

__version__ = "0.1.0"
