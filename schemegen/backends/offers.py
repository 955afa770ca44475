"""Whether what a scheme asks for can be computed: by any backend at all, and by the one that was chosen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from schemegen.backends.guard import GuardedBackend
from schemegen.errors import PluginError, UnknownNameError, UnsupportedError
from schemegen.planner import Plan
from schemegen.scheme import Format, Scheme

#: Fields of a scheme that are read and that no backend takes, with what to do.
UNTAKEN: Final = {
    "calibration": "no backend looks at data; leave calibration out, or take a method without data such as rtn",
    "kv_cache": "no backend makes scales for the KV cache; leave kv_cache out, engines take --kv-cache-dtype fp8 alone",
}


def check_offers(
    plan: Plan, backends: Sequence[GuardedBackend], chosen: GuardedBackend | None = None, notes: Sequence[str] = ()
) -> None:
    """UnsupportedError for a method, an option or a format that `chosen` refuses; without one, that all refuse.

    UnknownNameError, with `notes`, for a method that no backend has. The other backends are asked for the advice alone.
    """
    _check_fields(plan.scheme)
    takers = _takers(plan.scheme, backends, chosen, notes)
    for name, format in plan.formats_used.items():
        _check_format(plan, name, format, takers, chosen)


def _check_fields(scheme: Scheme) -> None:
    for field, told in UNTAKEN.items():
        if getattr(scheme, field) is not None:
            raise UnsupportedError(f"scheme {scheme.name} says {field}, but {told}")


def _takers(
    scheme: Scheme, backends: Sequence[GuardedBackend], chosen: GuardedBackend | None, notes: Sequence[str]
) -> list[GuardedBackend]:
    """The backends that compute the scheme's method with its options."""
    methods = dict(methods_of(backends)) | ({} if chosen is None else {chosen.name: chosen.method})
    takers = [backend for backend in backends if methods.get(backend.name) == scheme.method.name]
    if not takers:
        raise UnknownNameError(f"method of scheme {scheme.name}:", scheme.method.name, set(methods.values()), notes)
    if chosen is not None and methods.get(chosen.name) != scheme.method.name:
        names = ", ".join(backend.name for backend in takers)
        raise UnsupportedError(
            f"backend {chosen.name} has no method {scheme.method.name}, which scheme {scheme.name} asks for; "
            f"choose one that has it: {names}"
        )
    return _with_options(scheme, takers, chosen)


def methods_of(backends: Iterable[GuardedBackend]) -> Iterator[tuple[str, str]]:
    """Method by backend; a broken backend has none, and keeps no other from it."""
    for backend in backends:
        try:
            yield backend.name, backend.method
        except PluginError:
            continue


def _with_options(
    scheme: Scheme, takers: Sequence[GuardedBackend], chosen: GuardedBackend | None
) -> list[GuardedBackend]:
    faults = {backend.name: _option_faults(scheme, backend, chosen) for backend in takers}
    good = [backend for backend in takers if not faults[backend.name]]
    asked = takers[0].name if chosen is None else chosen.name
    if faults[asked] and (chosen is not None or not good):
        told = "; ".join(faults[asked])
        raise UnsupportedError(f"scheme {scheme.name}, method {scheme.method.name} of backend {asked}: {told}")
    return good


def _option_faults(scheme: Scheme, backend: GuardedBackend, chosen: GuardedBackend | None) -> tuple[str, ...]:
    try:
        return tuple(f"method.{fault}" for fault in backend.option_faults(scheme.method.options))
    except PluginError as error:
        if chosen is not None and backend.name == chosen.name:
            raise
        return (str(error),)


def _check_format(
    plan: Plan, name: str, format: Format, takers: Sequence[GuardedBackend], chosen: GuardedBackend | None
) -> None:
    kinds = {(t.source.dtype, t.matrix_shape[1]) for t in plan.tensors if t.format == name}
    if chosen is not None and _reason(chosen, format, kinds) is None:
        return
    reasons = {backend.name: refusal_of(backend, format, kinds) for backend in takers}
    able = [backend for backend, reason in reasons.items() if reason is None]
    if not able:
        why = "; ".join(f"{backend} {reason}" for backend, reason in reasons.items())
        raise UnsupportedError(f"no backend takes format {name!r} of scheme {plan.scheme.name}: {why}")
    if chosen is not None:
        advice = f"choose one that takes it: {', '.join(able)}"
        raise UnsupportedError(f"backend {chosen.name} refuses format {name!r}: it {reasons[chosen.name]}; {advice}")


def _reason(backend: GuardedBackend, format: Format, kinds: Collection[tuple[str, int]]) -> str | None:
    """Why a backend does not take a format, or not from weights of one of these dtypes and widths."""
    told = (backend.refuses_weights(format, dtype, columns) for dtype, columns in sorted(kinds))
    return backend.refuses(format) or next((reason for reason in told if reason), None)


def refusal_of(backend: GuardedBackend, format: Format, kinds: Collection[tuple[str, int]] = ()) -> str | None:
    """The same; a broken backend does not take it, and keeps no other from it."""
    try:
        return _reason(backend, format, kinds)
    except PluginError as error:
        return str(error)
