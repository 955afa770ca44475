"""Encoding and decoding of quantized matrices: `integers` is the public face, the rest is how it is done.

`cpu` calls fused kernels: `bits` converts between float formats; a module for each family of formats holds its loops
(`int_symmetric`); `compiler` makes machine code of a loop, and `native` keeps it, so that a run with a warm cache never
imports numba. `torch_int` computes the same bits in torch, on any device; modules named `torch_*` alone import it.

A loop becomes vector code only where LLVM sees straight-line code, and there are three ways to write some. Short steps
on items that lie together are a plain inner loop of a fixed count: LLVM unrolls it. Longer steps are written out by
doubling: with `straight` (`filler`, `comparer`) where a source is read and other memory written, as in FP8, and with
`fp4.repeated` where words are changed in place. Steps whose sums need a fixed order of lanes, as in the searches, take
`vectors`, whose values are whole vectors.
"""
