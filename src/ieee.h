/* Stops compilation under flags that would break the bit contract without a word.
 * May know: compiler macros.  Must not know: anything else. */
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__ > 0)
#error "heed needs IEEE arithmetic: build without -ffast-math, -Ofast and -ffinite-math-only"
#endif
