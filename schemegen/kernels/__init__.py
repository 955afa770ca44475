"""Encoding and decoding of quantized matrices: `cpu` is the public face, the rest is how it is done.

`bits` converts between float formats, a module a family of formats holds the loops (`int_symmetric`), and `native` turns
a loop into machine code and keeps it, so that a run with a warm cache never imports numba.
"""
