"""The partition of a trace by description length: exact, incremental, in batches, robust."""

from perftrend.analysis.mdl.batch import partition_all
from perftrend.analysis.mdl.engine import is_compiled
from perftrend.analysis.mdl.exact import DEFAULT_FORMULA, load, partition, partition_after
from perftrend.analysis.mdl.incremental import GrowingPartition
from perftrend.analysis.mdl.outliers import count_as_far
from perftrend.analysis.mdl.partitions import Partition
from perftrend.analysis.mdl.prefix_search import RepeatedSearch

__all__ = [
    "DEFAULT_FORMULA",
    "GrowingPartition",
    "Partition",
    "RepeatedSearch",
    "count_as_far",
    "is_compiled",
    "load",
    "partition",
    "partition_after",
    "partition_all",
]
