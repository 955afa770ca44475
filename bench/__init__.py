"""The measured claims: checkpoint builders, an independent comparison, and the runs that print ratios."""
