"""What one quantized matrix becomes on disk: suffixes, dtypes, shapes and exact bytes of each format.

compressed-tensors' names and layouts; facts of the layouts are its compressors' (compressed-tensors 0.19).
"""

from schemegen.formats.pieces import DTYPE_BITS, WEIGHT_DTYPES, Piece, group_of, pieces, refuses
from schemegen.formats.rounding import MINMAX, OBSERVERS, SIGNED_MSE, observer_of, rounding_fault
from schemegen.formats.storage import MSE_OBSERVERS, is_searched, scale_dtype_of, storage_fault, storage_of
from schemegen.formats.traits import Shared, are_rows_alone, row_step, shared_of

__all__ = [
    "DTYPE_BITS",
    "MINMAX",
    "MSE_OBSERVERS",
    "OBSERVERS",
    "SIGNED_MSE",
    "WEIGHT_DTYPES",
    "Piece",
    "Shared",
    "are_rows_alone",
    "group_of",
    "is_searched",
    "observer_of",
    "pieces",
    "refuses",
    "rounding_fault",
    "row_step",
    "scale_dtype_of",
    "shared_of",
    "storage_fault",
    "storage_of",
]
