/* A row softmax as one writes it around SLEEF's vector exp: what heed_softmax is compared with.  Compiled by
 * engine_sleef.py when it is needed, never part of heed's build.
 * May know: SLEEF, vectors of the machine it is compiled on, and that gcc and clang add, subtract and multiply them as they do floats.
 * Must not know: heed. */
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
static vector exponential(vector x)
{
    return Sleef_expf16_u10(x);
}
static vector larger(vector a, vector b)
{
    return _mm512_max_ps(a, b);
}
static float largest_lane(vector a)
{
    return _mm512_reduce_max_ps(a);
}
static float sum_of_lanes(vector a)
{
    return _mm512_reduce_add_ps(a);
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
static vector exponential(vector x)
{
    return Sleef_expf8_u10(x);
}
static vector larger(vector a, vector b)
{
    return _mm256_max_ps(a, b);
}
static float largest_lane(vector a)
{
    __m128 x = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_max_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)));
}
static float sum_of_lanes(vector a)
{
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
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
static vector exponential(vector x)
{
    return Sleef_expf4_u10(x);
}
static vector larger(vector a, vector b)
{
    return vmaxq_f32(a, b);
}
static float largest_lane(vector a)
{
    return vmaxvq_f32(a);
}
static float sum_of_lanes(vector a)
{
    return vaddvq_f32(a);
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
static vector exponential(vector x)
{
    return Sleef_expf_u10(x);
}
static vector larger(vector a, vector b)
{
    return a > b ? a : b;
}
static float largest_lane(vector a)
{
    return a;
}
static float sum_of_lanes(vector a)
{
    return a;
}
#endif

const char *peer_name(void)
{
    return name;
}

static float largest(int64_t cols, const float *x)
{
    vector v = (vector){ 0 } - INFINITY;
    int64_t c = 0;
    for (; c + LANES <= cols; c += LANES)
        v = larger(v, load(x + c));
    float most = largest_lane(v);
    for (; c < cols; c++)
        most = x[c] > most ? x[c] : most;
    return most;
}

static void exponentials(int64_t cols, const float *x, float most, float *y)
{
    int64_t c = 0;
    for (; c + LANES <= cols; c += LANES)
        store(y + c, exponential(load(x + c) - most));
    for (; c < cols; c++)
        y[c] = Sleef_expf_u10(x[c] - most);
}

/* A loop of its own: beside the calls of exp its sum would not stay in a register. */
static float total(int64_t cols, const float *y)
{
    vector v = { 0 };
    int64_t c = 0;
    for (; c + LANES <= cols; c += LANES)
        v += load(y + c);
    float sum = sum_of_lanes(v);
    for (; c < cols; c++)
        sum += y[c];
    return sum;
}

static void row(int64_t cols, const float *x, float *y)
{
    exponentials(cols, x, largest(cols, x), y);
    const float scale = 1.0f / total(cols, y);
    int64_t c = 0;
    for (; c + LANES <= cols; c += LANES)
        store(y + c, load(y + c) * scale);
    for (; c < cols; c++)
        y[c] *= scale;
}

void peer_softmax(int64_t rows, int64_t cols, const float *x, float *y, int threads)
{
#pragma omp parallel for schedule(static) num_threads(threads) if (threads > 1)
    for (int64_t r = 0; r < rows; r++)
        row(cols, x + r * cols, y + r * cols);
}
