/* Monotone Bernstein polynomial of sigmoid(x) with softplus increments, one row at a time.
 *
 * inc_k = softplus(raw_k), u = sigmoid(x), n = M - 1, b_j = binom(n, j) u^j (1-u)^(n-j):
 *   value          sum_k inc_k P(Bin(M, u) >= k),      P(. >= k) = sum_{j >= k} b_j + u b_{k-1}
 *   log derivative log[ M u (1-u) sum_k inc_k b_{k-1} ]   with respect to x
 * for k = 1..M. The basis starts at the end where it is largest and goes on by ratios <= n e^-|x|.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* e^-t for t >= 0; t above 708 counts as 708, so that no increment is ever exactly zero.
 * Branch-free, to be vectorised: t = k log 2 + rest, Taylor polynomial of degree 13 in the rest. */
static inline double bernstein_exp_minus(double t) {
    const double shift = 6755399441055744.0; /* 1.5 * 2^52: adding it rounds to an integer */
    double x = -(t > 708.0 ? 708.0 : t); /* NaN stays NaN */
    double shifted = x * 1.4426950408889634074 + shift;
    double k = shifted - shift;
    double f = x - k * 6.93147180369123816490e-01;
    f -= k * 1.90821492927058770002e-10;
    double p = 1.0 / 6227020800.0;
    p = p * f + 1.0 / 479001600.0;
    p = p * f + 1.0 / 39916800.0;
    p = p * f + 1.0 / 3628800.0;
    p = p * f + 1.0 / 362880.0;
    p = p * f + 1.0 / 40320.0;
    p = p * f + 1.0 / 5040.0;
    p = p * f + 1.0 / 720.0;
    p = p * f + 1.0 / 120.0;
    p = p * f + 1.0 / 24.0;
    p = p * f + 1.0 / 6.0;
    p = p * f + 0.5;
    p = p * f + 1.0;
    p = p * f + 1.0;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 1023u) << 52; /* the integer sits in the low bits of shifted */
    double scale;
    memcpy(&scale, &bits, sizeof scale);
    return p * scale;
}

/* log(1 + e) for 0 <= e <= 1 as 2 atanh(e / (2 + e)), minimax polynomial in its square (2e-18). */
static inline double bernstein_log1p(double e) {
    double s = e / (2.0 + e);
    double t = s * s;
    double p = 0.08522081781390699;
    p = p * t + 0.0416225325593041;
    p = p * t + 0.06055084364034609;
    p = p * t + 0.06650187016337313;
    p = p * t + 0.07693307021152004;
    p = p * t + 0.09090870416252403;
    p = p * t + 0.11111112040373837;
    p = p * t + 0.14285714272727057;
    p = p * t + 0.20000000000092874;
    p = p * t + 0.33333333333333076;
    p = p * t + 1.0;
    return 2.0 * s * p;
}

static void bernstein_softplus(const double *raw, int M, double *inc) {
    for (int k = 0; k < M; ++k) {
        double e = bernstein_exp_minus(fabs(raw[k]));
        inc[k] = (raw[k] > 0.0 ? raw[k] : 0.0) + bernstein_log1p(e);
    }
}

static void bernstein_softplus_slope(const double *raw, int M, double *inc, double *slope) {
    for (int k = 0; k < M; ++k) {
        double e = bernstein_exp_minus(fabs(raw[k]));
        inc[k] = (raw[k] > 0.0 ? raw[k] : 0.0) + bernstein_log1p(e);
        slope[k] = (raw[k] > 0.0 ? 1.0 : e) / (1.0 + e);
    }
}

/* b_0..b_n at sigmoid(x); returns sigmoid(x). ratio[j] = (n - j) / (j + 1). */
static double bernstein_basis(double x, int n, const double *ratio, double *b) {
    double r = exp(-fabs(x));
    double value = exp(-n * log1p(r));
    if (x <= 0.0) {
        for (int j = 0; j < n; ++j) { b[j] = value; value *= ratio[j] * r; }
        b[n] = value;
        return r / (1.0 + r);
    }
    for (int j = 0; j < n; ++j) { b[n - j] = value; value *= ratio[j] * r; }
    b[0] = value;
    return 1.0 / (1.0 + r);
}

static double bernstein_log_sigmoid_slope(double x) { /* log u (1 - u) */
    double a = fabs(x);
    return -a - 2.0 * log1p(exp(-a));
}

static double bernstein_dot(const double *a, const double *b, int M) {
    double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
    int k = 0;
    for (; k + 3 < M; k += 4) {
        s0 += a[k] * b[k];
        s1 += a[k + 1] * b[k + 1];
        s2 += a[k + 2] * b[k + 2];
        s3 += a[k + 3] * b[k + 3];
    }
    for (; k < M; ++k) s0 += a[k] * b[k];
    return (s0 + s1) + (s2 + s3);
}

/* tail[k-1] = P(Bin(M, u) >= k), in place of a second basis. */
static void bernstein_survival(const double *b, double u, int M, double *tail) {
    double above = 0.0;
    for (int k = M; k >= 1; --k) {
        tail[k - 1] = above + u * b[k - 1];
        above += b[k - 1];
    }
}

static void bernstein_ratio(int n, double *ratio) {
    for (int j = 0; j < n; ++j) ratio[j] = (double)(n - j) / (double)(j + 1);
}

/* work holds 4 M doubles, the first M of them the ratios. NaN in gives NaN out. */
static void bernstein_forward_row(double x, const double *raw, int M, double *work,
                                  double *value, double *log_derivative) {
    double *ratio = work, *b = work + M, *inc = work + 2 * M, *tail = work + 3 * M;
    double u = bernstein_basis(x, M - 1, ratio, b);
    bernstein_softplus(raw, M, inc);
    bernstein_survival(b, u, M, tail);
    *value = bernstein_dot(inc, tail, M);
    *log_derivative = log(M * bernstein_dot(inc, b, M)) + bernstein_log_sigmoid_slope(x);
}

/* work holds 5 M doubles, the first M of them the ratios.
 * Cotangents of (value, log derivative) to cotangents of (x, raw). With q_k = inc_k b_{k-1}:
 *   d value / dx = M u (1-u) sum q_k,   d log derivative / dx = sum q_k (k - (M+1) u) / sum q_k
 *   d value / dinc_k = P(Bin >= k),     d log derivative / dinc_k = b_{k-1} / sum q_k            */
static void bernstein_backward_row(double x, const double *raw, int M, double g_value,
                                   double g_log, double *work, double *gx, double *graw) {
    double *ratio = work, *b = work + M, *inc = work + 2 * M, *tail = work + 3 * M;
    double *slope = work + 4 * M;
    double u = bernstein_basis(x, M - 1, ratio, b);
    bernstein_softplus_slope(raw, M, inc, slope);
    bernstein_survival(b, u, M, tail);
    double total = 0.0, first = 0.0;
    for (int k = 0; k < M; ++k) {
        double q = inc[k] * b[k];
        total += q;
        first += q * ((double)(k + 1) - (M + 1) * u);
    }
    *gx = g_value * M * exp(bernstein_log_sigmoid_slope(x)) * total + g_log * first / total;
    double scaled = g_log / total;
    for (int k = 0; k < M; ++k) graw[k] = (g_value * tail[k] + scaled * b[k]) * slope[k];
}

/* ---- arrays ------------------------------------------------------------------------------- */

/* An output of the wanted shape: the storage of the last call where it fits. 0 on success. */
static int bernstein_allocate(PyArrayObject **out, int ndim, npy_intp N, npy_intp M) {
    npy_intp shape[2] = {N, M};
    PyArrayObject *old = *out;
    if (old && PyArray_IS_C_CONTIGUOUS(old) && PyArray_DIM(old, 0) == N
        && (ndim == 1 || PyArray_DIM(old, 1) == M)) return 0;
    Py_XDECREF(old);
    *out = (PyArrayObject *)PyArray_SimpleNew(ndim, shape, NPY_DOUBLE);
    return *out == NULL;
}

/* Room for `arrays` rows of M doubles, the first filled with the ratios; NULL with an exception
 * set. The last row is where a row of raw with strided columns is gathered. */
static double *bernstein_begin(PyArrayObject *x, PyArrayObject *raw, int arrays) {
    npy_intp M = PyArray_DIM(raw, 1);
    if (PyArray_DIM(x, 0) != PyArray_DIM(raw, 0) || M < 1) {
        PyErr_Format(PyExc_ValueError,
                     "x must have one entry for each row of raw and raw at least one column, got "
                     "%zd entries and shape (%zd, %zd)", (Py_ssize_t)PyArray_DIM(x, 0),
                     (Py_ssize_t)PyArray_DIM(raw, 0), (Py_ssize_t)M);
        return NULL;
    }
    double *work = (double *)malloc((size_t)(arrays * M) * sizeof(double));
    if (!work) PyErr_NoMemory();
    else bernstein_ratio((int)M - 1, work);
    return work;
}

static const double *bernstein_row(PyArrayObject *raw, npy_intp i, double *room) {
    if (PyArray_STRIDE(raw, 1) == (npy_intp)sizeof(double))
        return (const double *)PyArray_GETPTR2(raw, i, 0);
    for (npy_intp k = 0; k < PyArray_DIM(raw, 1); ++k)
        room[k] = *(const double *)PyArray_GETPTR2(raw, i, k);
    return room;
}

#define BERNSTEIN_AT(array, i) (*(double *)PyArray_GETPTR1(array, i))

static int bernstein_forward(PyArrayObject *x, PyArrayObject *raw, PyArrayObject **value,
                             PyArrayObject **log_derivative) {
    npy_intp N = PyArray_DIM(raw, 0), M = PyArray_DIM(raw, 1);
    double *work = bernstein_begin(x, raw, 5);
    if (!work) return 1;
    int failed = bernstein_allocate(value, 1, N, M) || bernstein_allocate(log_derivative, 1, N, M);
    for (npy_intp i = 0; !failed && i < N; ++i)
        bernstein_forward_row(BERNSTEIN_AT(x, i), bernstein_row(raw, i, work + 4 * M), (int)M, work,
                              &BERNSTEIN_AT(*value, i), &BERNSTEIN_AT(*log_derivative, i));
    free(work);
    return failed;
}

static int bernstein_backward(PyArrayObject *x, PyArrayObject *raw, PyArrayObject *g_value,
                              PyArrayObject *g_log, PyArrayObject **gx, PyArrayObject **graw) {
    npy_intp N = PyArray_DIM(raw, 0), M = PyArray_DIM(raw, 1);
    double *work = bernstein_begin(x, raw, 6);
    if (!work) return 1;
    int failed = bernstein_allocate(gx, 1, N, M) || bernstein_allocate(graw, 2, N, M);
    for (npy_intp i = 0; !failed && i < N; ++i)
        bernstein_backward_row(BERNSTEIN_AT(x, i), bernstein_row(raw, i, work + 5 * M), (int)M,
                               BERNSTEIN_AT(g_value, i), BERNSTEIN_AT(g_log, i), work,
                               &BERNSTEIN_AT(*gx, i), (double *)PyArray_GETPTR2(*graw, i, 0));
    free(work);
    return failed;
}
