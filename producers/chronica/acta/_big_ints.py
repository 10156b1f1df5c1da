"""Integers of any length to and from decimal digits.

JSON sets no limit to a number's length; Python converts at most 4300 digits (and the limit is a
process-wide setting that is not ours to change). Both directions divide and conquer, so that a
hostile document of a million digits costs a second instead of minutes.
"""

from __future__ import annotations

import decimal
from decimal import Decimal

__all__ = ["int_from_digits", "int_to_digits"]

_DIGITS_AT_ONCE = 600
"""Below 640, the lowest limit that Python lets anyone set: ``int()`` always takes so many."""

_BITS_AT_ONCE = 1024


def int_from_digits(digits: str) -> int:
    """Return the integer of a JSON number's digits, which may begin with a minus."""
    if digits.startswith("-"):
        return -int_from_digits(digits[1:])
    if len(digits) <= _DIGITS_AT_ONCE:
        return int(digits)
    low = len(digits) // 2
    power: int = 10**low
    return int_from_digits(digits[:-low]) * power + int_from_digits(digits[-low:])


def int_to_digits(number: int) -> str:
    """Return the decimal digits of an integer, exactly."""
    with decimal.localcontext() as context:
        # Unbounded and never rounded: decimal's multiplication is the fast one, int's is not.
        context.prec = decimal.MAX_PREC
        context.Emax = decimal.MAX_EMAX
        context.Emin = decimal.MIN_EMIN
        context.traps[decimal.Inexact] = True
        return format(_decimal(number, number.bit_length(), {}), "f")


def _decimal(number: int, bits: int, powers: dict[int, Decimal]) -> Decimal:
    if bits <= _BITS_AT_ONCE:
        return Decimal(number)
    low = bits // 2
    if low not in powers:
        powers[low] = Decimal(2) ** low
    # For a negative number, the shift rounds down and the mask is the remainder: still exact.
    high = _decimal(number >> low, bits - low, powers)
    return high * powers[low] + _decimal(number & ((1 << low) - 1), low, powers)
