"""The autopsy of a job: which rank, which call and which cause, from the records that its ranks left. No torch here.

records.py      a rank's calls as a value
dumps.py        read records from files: ours, and those of torch's flight recorder
diagnosis.py    compare the ranks, and say who waits for whom
"""

from pllab.autopsy.diagnosis import CAUSES, Diagnosis, diagnose, lateness, wait_for_graph
from pllab.autopsy.dumps import read_pickle, read_records
from pllab.autopsy.records import Call, Caught, Record

__all__ = [
    "CAUSES",
    "Call",
    "Caught",
    "Diagnosis",
    "Record",
    "diagnose",
    "lateness",
    "read_pickle",
    "read_records",
    "wait_for_graph",
]
