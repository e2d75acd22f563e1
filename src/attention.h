/* The two kinds of tasks of a run.
 * May know: plans.  Must not know: kernels, OpenMP. */
#ifndef HEED_ATTENTION_H
#define HEED_ATTENTION_H

#include "plan.h"

typedef struct heed_run_state {
    const heed_plan *plan;
    const heed_tensors *tensors;
    char *workspace;    /* aligned */
    int64_t first_head; /* kv head (over the whole batch) that the wave begins with */
    int masks_scores;   /* heed_mask_scores() */
} heed_run_state;

/* Tasks for heed_parallel, argument a heed_run_state: one block of keys and values of a kv head of the wave, respectively one block of
 * query rows. */
void heed_pack_task(void *argument, int64_t index, int32_t worker);
void heed_query_task(void *argument, int64_t index, int32_t worker);

#endif
