/* Runs the tests of one vec.h where the CPU can; elsewhere the test is skipped, by exit code 77.
 * May know: src/backend.h for the CPU's features, vec_suite.h.
 * Must not know: vectors; compiled without instruction-set flags. */
#include "backend.h"
#include "vec_suite.h"

#include <stdio.h>

#ifdef HEED_WITH_SLEEF
float Sleef_finz_expf1_u10purecfma(float); /* <sleef.h> declares it only in files compiled with FMA */

float vec_suite_exp(float x)
{
    return Sleef_finz_expf1_u10purecfma(x);
}
#endif

int main(int argc, char **argv)
{
    const vec_suite *suite = &vec_under_test;
    if ((heed_cpu() & suite->requires_cpu) != suite->requires_cpu) {
        printf("SKIPPED: this CPU has not what %s requires\n", suite->name);
        return 77;
    }
    const int sleef = (heed_cpu() & suite->sleef_requires_cpu) == suite->sleef_requires_cpu;
    printf("vec.h of %s%s\n", suite->name, suite->sleef && !sleef ? "; this CPU cannot run SLEEF's functions" : "");
    return check_main(argc, argv, suite->tests, suite->count - (sleef ? 0 : suite->sleef));
}
