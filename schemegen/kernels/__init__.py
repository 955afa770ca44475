"""Encoding and decoding of quantized matrices: `integers` is the public face, the rest is how it is done.

`cpu` calls fused kernels: `bits` converts between float formats; a module for each family of formats holds its loops
(`int_symmetric`); `compiler` makes machine code of a loop, and `native` keeps it, so that a run with a warm cache never
imports numba. `torch_int` computes the same bits in torch, on any device; modules named `torch_*` alone import it.
"""
