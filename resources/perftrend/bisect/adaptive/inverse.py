"""The inverses and determinants of many small covariances at once.

Multiples of uuᵀ that are large compared with the rest are added to the inverse, not to S: elimination would
lose the rest.

Source: Golub and Van Loan, Matrix Computations, section 2.1 (the formula of Sherman, Morrison and Woodbury).
"""

from __future__ import annotations

import numpy as np

from perftrend.analysis.comparison.observations import Floats


def inverse(covariance: Floats) -> tuple[Floats, Floats]:
    """Return the inverses, (g, n, n), and the logarithms of the determinants, (g,).

    :param covariance: positive definite, (g, n, n).
    :raises LinAlgError: if one is not positive definite.
    """
    root = np.linalg.cholesky(covariance)
    log_determinant = 2 * np.log(np.einsum("gii->gi", root)).sum(axis=1)
    return np.asarray(np.linalg.inv(covariance), np.float64), log_determinant


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
