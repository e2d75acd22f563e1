/* One run of a plan as its tasks see it.
 * May know: plans.  Must not know: kernels, OpenMP. */
#ifndef HEED_RUN_H
#define HEED_RUN_H

#include "plan.h"

typedef struct heed_run_state {
    const heed_plan *plan;
    const heed_tensors *tensors;
    char *workspace;    /* aligned */
    int64_t first_head; /* kv head (over the whole batch) that the wave begins with */
    int masks_scores;   /* heed_mask_scores() */
} heed_run_state;

/* Tasks for heed_parallel, argument a heed_run_state.  Of the wave: one block of keys and values of a kv head, packed to be shared
 * (index = head * blocks_kv + block); one block of query rows (index = head * blocks_q + row block), of as many heads as the plan takes together. */
void heed_pack_task(void *argument, int64_t index, int32_t worker);
void heed_query_task(void *argument, int64_t index, int32_t worker);

/* Of a plan that splits keys: one stretch of key blocks of a kv head, or of those taken together (index = head * splits + stretch), whose
 * partial results wait in the workspace; the merge of a kv head's partial results (index = head). */
void heed_split_task(void *argument, int64_t index, int32_t worker);
void heed_merge_task(void *argument, int64_t index, int32_t worker);

#endif
