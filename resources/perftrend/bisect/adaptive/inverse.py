"""The inverses and determinants of many small covariances at once.

By blocks, with S = ((A, B), (Bᵀ, D)), F = A⁻¹B and the complement C = D - BᵀF,

    S⁻¹ = ((A⁻¹ + F C⁻¹ Fᵀ, -F C⁻¹), (-C⁻¹ Fᵀ, C⁻¹)),    log det S = log det A + log det C.

That is products of matrices for the most part, and those take a tenth of the time that LAPACK's inverse
takes.

What adds a multiple of some uuᵀ that is large beside the rest is added to the inverse, not to S: elimination
by blocks would lose the rest beside it.

Source: Golub and Van Loan, Matrix Computations, sections 3.2 (block elimination) and 2.1 (the formula of
Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

import numpy as np

from perftrend.analysis.comparison.observations import Floats

_SMALL = 12


def inverse(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the inverses, (g, n, n), and the logarithms of the determinants, (g,).

    :param covariance: positive definite, (g, n, n).
    :raises LinAlgError: if one is not positive definite.
    """
    size = covariance.shape[-1]
    if size <= _SMALL:
        root = np.linalg.cholesky(covariance)
        log_determinant = 2 * np.log(np.einsum("gii->gi", root)).sum(axis=1)
        return np.asarray(np.linalg.inv(covariance), np.float64), log_determinant
    half = size // 2
    cross = covariance[:, :half, half:]
    first, of_first = inverse(covariance[:, :half, :half])
    fitted = first @ cross
    second, of_second = inverse(covariance[:, half:, half:] - np.swapaxes(cross, 1, 2) @ fitted)
    corner = fitted @ second
    whole = np.empty_like(covariance)
    whole[:, :half, :half] = first + corner @ np.swapaxes(fitted, 1, 2)
    whole[:, :half, half:] = -corner
    whole[:, half:, :half] = -np.swapaxes(corner, 1, 2)
    whole[:, half:, half:] = second
    return whole, of_first + of_second


def widened(
    precision: Floats, log_determinant: Floats, design: Floats, variance: float
) -> tuple[Floats, Floats]:
    """Return the inverses and log determinants of S + variance Σ uuᵀ, given those of S.

    :param precision: (g, n, n).
    :param log_determinant: (g,).
    :param design: the vectors u, (f, n).
    """
    pulled = precision @ design.T
    inner = design @ pulled + np.eye(len(design)) / variance
    inverses, determinants = inverse(inner)
    return (
        precision - pulled @ inverses @ np.swapaxes(pulled, 1, 2),
        log_determinant + determinants + len(design) * np.log(variance),
    )
