"""Proof that a finished folder is what its manifest, its plan and its source say, to the byte."""

from schemegen.verifier.folder import check_small_files, check_source_headers, check_unread, verify_folder
from schemegen.verifier.report import Report

__all__ = ["Report", "check_small_files", "check_source_headers", "check_unread", "verify_folder"]
