"""Measurements against what a user would pick instead. A comparison is a ratio inside one run."""

from pllab.bench.data_parallel import bench_data_parallel
from pllab.bench.measure import Comparison, Implausible, compare
from pllab.bench.pipeline import bench_pipeline

__all__ = ["Comparison", "Implausible", "bench_data_parallel", "bench_pipeline", "compare"]
