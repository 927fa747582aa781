/* E[log(1 + e^X)], X ~ N(mu, sigma^2), and its derivatives D_j = d^j/dmu^j, for one element.
 *
 * out = (D_m, D_{m+1}, sigma D_{m+2}) = (D_m, dD_m/dmu, dD_m/dsigma) by the heat equation.
 * Everything is computed at mu = -t = -|mu| and reflected at the end. With z = t/sigma,
 * E = exp(-z^2/2) and the scaled complementary error function,
 *     B_k = E/2 erfcx((k sigma + z)/sqrt2),
 *     A_k = E/2 erfcx((k sigma - z)/sqrt2)                          where k sigma >= z,
 *     A_k = exp(-k t + k^2 sigma^2/2) - E/2 erfcx(|k sigma - z|/sqrt2)   otherwise,
 * so erfcx is only ever called with an argument >= 0 and no exponential overflows.
 *
 * The Python side prepends the tables ES_ERFCX, ES_ASYMPTOTIC and the constants ES_*.
 */

/* Half-width vectors: 15 per cent faster than 512-bit ones on the Zen 4 where it was measured. */
#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("prefer-vector-width=256")
#endif

#define ES_SQRT_HALF 0.70710678118654752440
#define ES_INV_SQRT_2PI 0.39894228040143267794

/* erfcx(x) and erfcx(y), 0 <= x, y and x y below 1e150. One division; four chains (even and odd
 * powers of each) hide the latency. Written out so that the loops over lanes vectorise. */
static inline void es_erfcx2(double x, double y, double *fx, double *fy)
{
    const double *c = ES_ERFCX;
    const double x3 = x + 3.0, x1 = 1.0 + 2.0 * x, dx = x3 * x1;
    const double y3 = y + 3.0, y1 = 1.0 + 2.0 * y, dy = y3 * y1;
    const double r = 1.0 / (dx * dy), qx = dy * r, qy = dx * r;
    const double sx = 1.0 - 6.0 * x1 * qx, ux = sx * sx; /* sx = (x - 3)/(x + 3) */
    const double sy = 1.0 - 6.0 * y1 * qy, uy = sy * sy;
    double even_x = c[22], odd_x = c[23], even_y = c[22], odd_y = c[23];
#define ES_STEP(i)                                                                  \
    even_x = even_x * ux + c[i]; odd_x = odd_x * ux + c[i + 1];                     \
    even_y = even_y * uy + c[i]; odd_y = odd_y * uy + c[i + 1];
    ES_STEP(20) ES_STEP(18) ES_STEP(16) ES_STEP(14) ES_STEP(12) ES_STEP(10) ES_STEP(8)
    ES_STEP(6) ES_STEP(4) ES_STEP(2) ES_STEP(0)
#undef ES_STEP
    *fx = (even_x + sx * odd_x) * x3 * qx;
    *fy = (even_y + sy * odd_y) * y3 * qy;
}

/* p[i] = (-1)^i sigma^i d^i N(mu; 0, sigma^2) / N at mu = -t, over sigma^i: He_i(z)/sigma^i. */
static inline void es_hermite(double z, double sigma, int n, double *p)
{
    const double inverse = 1.0 / sigma, slope = z * inverse, square = inverse * inverse;
    p[0] = 1.0;
    if (n > 1) p[1] = slope;
    for (int i = 1; i + 1 < n; i++) p[i + 1] = slope * p[i] - i * square * p[i - 1];
}

/* Large sigma: D_j = lead_j + sum_i c_i d^{2i+j-2} N(mu; 0, sigma^2). */
static inline void es_asymptotic(double z, double sigma, double E, int order, const double *lead,
                                 double *d)
{
    double p[2 * ES_ASYMPTOTIC_LENGTH + ES_MAX_ORDER + 3];
    const double density = ES_INV_SQRT_2PI * E / sigma;
    es_hermite(z, sigma, 2 * ES_ASYMPTOTIC_LENGTH + order, p);
    for (int row = 0; row < 3; row++) {
        const int j = order + row;
        double sum = 0.0;
        for (int i = ES_ASYMPTOTIC_LENGTH - 1; i >= 0; i--) {
            const int m = 2 * i + j - 2;
            if (m >= 0) sum += ES_ASYMPTOTIC[i] * p[m];
        }
        /* sigma * density first: sigma * (density * sum) would underflow for huge sigma */
        d[row] = row == 2 ? ES_INV_SQRT_2PI * E * sum : density * sum;
        if (j < 2) d[row] += lead[j];
    }
}

/* q[l] = e^{-k t + k^2 sigma^2/2} where k sigma < z, else 0, for k = base..base + lanes - 1. The
 * products power = q_k and ratio = q_{k+1}/q_k go on from one call to the next; they are bounded
 * wherever they are used, since k sigma < z means k sigma^2 < t. */
static inline void es_exponentials(double t, double z, double sigma, int base, double *power,
                                   double *ratio, double step, double *q)
{
    const double h = 0.5 * sigma * sigma;
    if (t < ES_RECURRENCE_LIMIT) {
        for (int l = 0; l < ES_LANES; l++) {
            const int k = base + l;
            q[l] = k > 0 && k * sigma < z ? *power : 0.0;
            *power *= *ratio;
            *ratio *= step;
        }
    } else {
        for (int l = 0; l < ES_LANES; l++) {
            const int k = base + l;
            q[l] = k > 0 && k * sigma < z ? exp(k * (k * h - t)) : 0.0;
        }
    }
}

static inline void es_kernel(double mu, double sigma, int order, int slots, int accelerated,
                             const double *weights, const double *boundary, double *out)
{
    const double t = fabs(mu), z = sigma > 0.0 ? t / sigma : INFINITY;
    double d[3] = {0.0, 0.0, 0.0};

    if (!(sigma >= 0.0) || mu != mu || (isinf(t) && isinf(sigma))) {
        out[0] = out[1] = out[2] = NAN;
        return;
    }
    if (isinf(t)) {
        /* all D_j(-inf) = 0 */
    } else if (isinf(sigma)) {
        d[0] = order == 0 ? INFINITY : order == 1 ? 0.5 : 0.0;
        d[1] = order == 0 ? 0.5 : 0.0;
        d[2] = order == 0 ? ES_INV_SQRT_2PI : 0.0;
    } else if (sigma == 0.0 && accelerated && order == 0) {
        d[0] = log1p(exp(-t));
        d[1] = exp(-t) / (1.0 + exp(-t));
    } else {
        const int gaussian = 0.5 * z * z <= t + ES_NEGLIGIBLE;
        const double E = gaussian ? exp(-0.5 * z * z) : 0.0;
        const double ct = sigma * ES_SQRT_HALF, cz = gaussian ? z * ES_SQRT_HALF : 0.0;
        if (sigma > ES_HUGE_SIGMA || (accelerated && sigma >= ES_LARGE_SIGMA && z <= 0.25 * sigma)) {
            double scaled, unused;
            es_erfcx2(cz, 0.0, &scaled, &unused);
            const double tail = 0.5 * E * scaled; /* Phi(-z) */
            const double lead[2] = {sigma * ES_INV_SQRT_2PI * E - t * tail, tail};
            es_asymptotic(z, sigma, E, order, lead, d);
        } else {
            double sum[3][ES_LANES] = {{0.0}}, power = 1.0, ratio = 0.0, step = 0.0, tail = 0.0;
            const double even = order % 2 ? -1.0 : 1.0, half = 0.5 * E;
            const int exponential = sigma < z;
            if (exponential) {
                ratio = exp(0.5 * sigma * sigma - t);
                step = exp(sigma * sigma);
            }
            for (int base = 0; base < slots; base += ES_LANES) {
                double a[ES_LANES] = {0.0}, b[ES_LANES] = {0.0};
                if (gaussian) {
                    for (int l = 0; l < ES_LANES; l++) {
                        const double kt = (base + l) * ct;
                        double minus, plus;
                        es_erfcx2(fabs(kt - cz), kt + cz, &minus, &plus);
                        /* the same comparison as in es_exponentials, or a tie counts twice */
                        a[l] = (base + l) * sigma < z ? -half * minus : half * minus;
                        b[l] = half * plus;
                    }
                    if (base == 0) tail = b[0]; /* slot 0: Phi(-z), its weights are zero */
                }
                if (exponential) {
                    double q[ES_LANES];
                    es_exponentials(t, z, sigma, base, &power, &ratio, step, q);
                    for (int l = 0; l < ES_LANES; l++) a[l] += q[l];
                }
                for (int l = 0; l < ES_LANES; l++) {
                    const double plus = a[l] + even * b[l], minus = a[l] - even * b[l];
                    sum[0][l] += weights[base + l] * plus;
                    sum[1][l] += weights[slots + base + l] * minus;
                    sum[2][l] += weights[2 * slots + base + l] * plus;
                }
            }
            for (int row = 0; row < 3; row++)
                for (int l = 0; l < ES_LANES; l++) d[row] += sum[row][l];
            d[2] *= sigma;
            if (order == 0) d[0] += sigma * ES_INV_SQRT_2PI * E - t * tail;
            if (order < 2) d[1 - order] += tail;
            if (!accelerated && E > 0.0 && sigma > 0.0) {
                double p[ES_MAX_ORDER + 3];
                es_hermite(z, sigma, order + 1, p);
                for (int row = 0; row < 3; row++)
                    for (int i = 0; i <= order; i++) {
                        const double scale = row == 2 ? 1.0 : 1.0 / sigma;
                        const double c = boundary[row * (order + 1) + i];
                        if (c != 0.0) d[row] += c * ES_INV_SQRT_2PI * E * scale * p[i];
                    }
            }
        }
    }
    if (mu > 0.0) {
        /* D_0(t) = D_0(-t) + t, D_1(t) = 1 - D_1(-t), D_j(t) = (-1)^j D_j(-t) */
        for (int row = 0; row < 3; row++)
            if ((order + row) % 2) d[row] = -d[row];
        if (order == 0) d[0] += t;
        if (order < 2) d[1 - order] += 1.0;
    }
    out[0] = d[0];
    out[1] = d[1];
    out[2] = d[2];
}

#if defined(__GNUC__) && __GNUC__ >= 8 && !defined(__clang__) && defined(__x86_64__)
#pragma GCC pop_options
#endif
