/* Says what the CPU offers of AVX-512, compares one fused multiply-add with libm's; exit status 42 if all is right.
 * May know: compiler and intrinsics.
 * Must not know: heed: this checks the emulator, not the library. */
#include <immintrin.h>
#include <math.h>
#include <stdio.h>

enum { LANES = 16, ALL_RIGHT = 42 };

__attribute__((target("avx512f"))) static int count_wrong(void)
{
    float x[LANES], y[LANES], z[LANES], out[LANES];
    int wrong = 0;
    for (int i = 0; i < LANES; i++) {
        x[i] = 0.1f * (float)i - 0.7f;
        y[i] = 1.0f / (float)(i + 3);
        z[i] = 1e-3f * (float)i;
    }
    _mm512_storeu_ps(out, _mm512_fmadd_ps(_mm512_loadu_ps(x), _mm512_loadu_ps(y), _mm512_loadu_ps(z)));
    for (int i = 0; i < LANES; i++)
        wrong += out[i] != fmaf(x[i], y[i], z[i]);
    return wrong;
}

int main(void)
{
    const int f = __builtin_cpu_supports("avx512f") != 0, dq = __builtin_cpu_supports("avx512dq") != 0,
              bw = __builtin_cpu_supports("avx512bw") != 0, vl = __builtin_cpu_supports("avx512vl") != 0;
    printf("avx512f %d, avx512dq %d, avx512bw %d, avx512vl %d\n", f, dq, bw, vl);
    if (!f || !dq || !bw || !vl)
        return 1;
    const int wrong = count_wrong();
    fprintf(stderr, "wrong lanes: %d\n", wrong);
    return wrong ? 2 : ALL_RIGHT;
}
