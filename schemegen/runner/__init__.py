"""Carries a plan out: chunks over workers, bounded memory, a journal, and one rename at the end."""
