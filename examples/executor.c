/* The caller's own thread pool runs heed's tasks: an engine that has threads already needs no others.
 * May know: heed/heed.h, POSIX threads.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_THREADS = 3, HEADS = 4, LENGTH = 300, HEAD_DIM = 64, COUNT = HEADS * LENGTH * HEAD_DIM };

/* ---- A pool: threads that wait for a loop, and take its indices one by one ---- */

typedef struct pool {
    pthread_t threads[POOL_THREADS];
    pthread_mutex_t lock;
    pthread_cond_t work, finished;
    void (*task)(void *argument, int64_t index);
    void *argument;
    int64_t next, count, running; /* indices handed out, all of them, those not yet returned */
    int stop;
} pool;

/* Takes and runs one task; the lock is held before and after, not meanwhile. */
static void run_one(pool *p)
{
    int64_t index = p->next++;
    void (*task)(void *, int64_t) = p->task;
    void *argument = p->argument;
    p->running++;
    pthread_mutex_unlock(&p->lock);
    task(argument, index);
    pthread_mutex_lock(&p->lock);
    p->running--;
    if (p->next == p->count && p->running == 0)
        pthread_cond_broadcast(&p->finished);
}

static void *worker(void *argument)
{
    pool *p = argument;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->stop && p->next == p->count)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->stop)
            break;
        run_one(p);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* What heed calls: task(argument, i) once for each i < count; returns when all have returned.  The caller helps, so the loop
 * ends even if no thread of the pool is free.  One loop at a time, which is all that one heed_run asks for. */
static void parallel_for(void *context, int64_t count, void (*task)(void *, int64_t), void *argument)
{
    pool *p = context;
    pthread_mutex_lock(&p->lock);
    p->task = task;
    p->argument = argument;
    p->next = 0;
    p->count = count;
    pthread_cond_broadcast(&p->work);
    while (p->next < p->count)
        run_one(p);
    while (p->running > 0)
        pthread_cond_wait(&p->finished, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static int pool_start(pool *p)
{
    memset(p, 0, sizeof *p);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);
    int started = 0;
    while (started < POOL_THREADS && pthread_create(&p->threads[started], NULL, worker, p) == 0)
        started++;
    return started;
}

static void pool_end(pool *p, int started)
{
    pthread_mutex_lock(&p->lock);
    p->stop = 1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < started; i++)
        pthread_join(p->threads[i], NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
}

/* ---- Attention ---- */

static heed_status attend(const float *x, float *out, const heed_options *options)
{
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = 1;
    attention.num_heads = attention.num_kv_heads = HEADS;
    attention.seq_len_q = attention.seq_len_kv = LENGTH;
    attention.head_dim = HEAD_DIM;
    attention.causal = HEED_CAUSAL_BOTTOM_RIGHT;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = tensors.k = tensors.v = x;
    tensors.out = out;
    heed_error error;
    heed_status status = heed_attend(&attention, &tensors, options, &error);
    if (status != HEED_OK)
        fprintf(stderr, "heed: %s\n", error.message);
    return status;
}

int main(void)
{
    static float x[COUNT], by_pool[COUNT], alone[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        x[i] = sinf(0.37f * (float)i);

    pool p;
    int started = pool_start(&p);
    /* The calling thread works too, so one more than the pool has. */
    heed_executor executor = { &p, started + 1, parallel_for };
    heed_options options = HEED_OPTIONS_INIT;
    options.executor = &executor;
    heed_status status = attend(x, by_pool, &options);
    pool_end(&p, started);

    heed_options one = HEED_OPTIONS_INIT;
    one.num_threads = 1;
    if (status != HEED_OK || attend(x, alone, &one) != HEED_OK)
        return 1;
    int same = memcmp(by_pool, alone, sizeof alone) == 0;
    printf("executor: a pool of %d threads and one thread give %s bits\n", started, same ? "the same" : "DIFFERENT");
    return same ? 0 : 1;
}
