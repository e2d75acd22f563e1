/* A row softmax as one writes it around SLEEF's vector exp: what heed_softmax is compared with.  Compiled by
 * engine_sleef.py when it is needed, never part of heed's build.
 * May know: SLEEF, vectors of the machine it is compiled on.  Must not know: heed. */
#include <math.h>
#include <sleef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 vector;
enum { LANES = 16 };
static const char name[] = "Sleef_expf16_u10";
static vector load(const float *x)
{
    return _mm512_loadu_ps(x);
}
static void store(float *y, vector x)
{
    _mm512_storeu_ps(y, x);
}
static vector exponential(vector x, float shift)
{
    return Sleef_expf16_u10(_mm512_sub_ps(x, _mm512_set1_ps(shift)));
}
#elif defined(__AVX2__)
#include <immintrin.h>
typedef __m256 vector;
enum { LANES = 8 };
static const char name[] = "Sleef_expf8_u10";
static vector load(const float *x)
{
    return _mm256_loadu_ps(x);
}
static void store(float *y, vector x)
{
    _mm256_storeu_ps(y, x);
}
static vector exponential(vector x, float shift)
{
    return Sleef_expf8_u10(_mm256_sub_ps(x, _mm256_set1_ps(shift)));
}
#elif defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t vector;
enum { LANES = 4 };
static const char name[] = "Sleef_expf4_u10";
static vector load(const float *x)
{
    return vld1q_f32(x);
}
static void store(float *y, vector x)
{
    vst1q_f32(y, x);
}
static vector exponential(vector x, float shift)
{
    return Sleef_expf4_u10(vsubq_f32(x, vdupq_n_f32(shift)));
}
#else
typedef float vector;
enum { LANES = 1 };
static const char name[] = "Sleef_expf_u10";
static vector load(const float *x)
{
    return *x;
}
static void store(float *y, vector x)
{
    *y = x;
}
static vector exponential(vector x, float shift)
{
    return Sleef_expf_u10(x - shift);
}
#endif

const char *peer_name(void)
{
    return name;
}

/* -Ofast lets the compiler vectorise the maximum, the sum and the product. */
static void row(int64_t cols, const float *x, float *y)
{
    float most = -INFINITY, sum = 0.0f;
    int64_t c = 0;
    for (int64_t i = 0; i < cols; i++)
        most = x[i] > most ? x[i] : most;
    for (; c + LANES <= cols; c += LANES)
        store(y + c, exponential(load(x + c), most));
    for (; c < cols; c++)
        y[c] = Sleef_expf_u10(x[c] - most);
    for (int64_t i = 0; i < cols; i++)
        sum += y[i];
    for (int64_t i = 0; i < cols; i++)
        y[i] *= 1.0f / sum;
}

void peer_softmax(int64_t rows, int64_t cols, const float *x, float *y, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < rows; r++)
        row(cols, x + r * cols, y + r * cols);
}
