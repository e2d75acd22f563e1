/* What the files that list cases share.
 * May know: verify.h.
 * Must not know: how cases are run. */
#ifndef HEED_TOOL_VERIFY_CASES_H
#define HEED_TOOL_VERIFY_CASES_H

#include "verify.h"

typedef struct case_list {
    verify_case *items;
    int64_t count, room;
    bool failed; /* out of memory */
} case_list;

void cases_add(case_list *list, const verify_case *item);

/* Once for each exp; the colon ends what seeds the data, so both see the same. */
void cases_add_with_exps(case_list *list, const verify_case *item);

void cases_name(verify_case *item, const char *format, ...);

/* One batch entry with as many kv heads as heads; everything else is set by the caller. */
verify_case cases_attention(int64_t heads, int64_t queries, int64_t keys, int64_t dim, int64_t dim_v);

/* Masks and RoPE (verify_cases_masks.c). */
void cases_add_masks(case_list *list);
void cases_add_rope(case_list *list);

/* Caches (verify_cases_decode.c). */
void cases_add_decode(case_list *list);

#endif
