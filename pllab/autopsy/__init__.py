"""The autopsy of a job: which rank, which call and which cause, from the records that its ranks left. No torch here.

records.py      a rank's calls as a value
dumps.py        read records from files: ours, and those of torch's flight recorder (narrow.py reads pickles safely)
habits.py       what a training repeats in every step
diagnosis.py    compare the ranks; waiting.py says who waits for whom
wards.py        eight faults placed by a seed; rehearsal.py makes the records they leave, on a virtual clock
"""

from pllab.autopsy.diagnosis import Diagnosis, diagnose
from pllab.autopsy.dumps import read_records
from pllab.autopsy.narrow import read_pickle
from pllab.autopsy.records import Call, Caught, Record
from pllab.autopsy.rehearsal import rehearse
from pllab.autopsy.waiting import lateness, wait_for_graph
from pllab.autopsy.wards import WARDS, Fault, Truth

__all__ = [
    "WARDS",
    "Call",
    "Caught",
    "Diagnosis",
    "Fault",
    "Record",
    "Truth",
    "diagnose",
    "lateness",
    "read_pickle",
    "read_records",
    "rehearse",
    "wait_for_graph",
]
