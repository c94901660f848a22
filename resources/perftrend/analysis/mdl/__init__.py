"""The partition of a trace by description length: exact, incremental, in batches, robust."""

from perftrend.analysis.mdl.batch import partition_all
from perftrend.analysis.mdl.exact import DEFAULT_FORMULA, partition
from perftrend.analysis.mdl.growing import GrowingPartition
from perftrend.analysis.mdl.partitions import Partition
from perftrend.analysis.mdl.search import is_compiled

__all__ = [
    "DEFAULT_FORMULA",
    "GrowingPartition",
    "Partition",
    "is_compiled",
    "partition",
    "partition_all",
]
