/* Keys and values sharded over the ranks of an MPI program: each rank attends to its own, and the partial results are merged by
 * their LSE in the order of the keys.  The bits are those of one process that cuts the keys at the same places, however many
 * ranks there are: docs/distributed.md.
 * May know: heed/heed.h, MPI.
 * Must not know: anything else of heed. */
#include <heed/heed.h>

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A shard is a whole number of heed's key blocks of 256 keys, the last one may be shorter.  Ranks own runs of shards. */
enum { HEADS = 4, KV_HEADS = 2, QUERIES = 24, SHARD = 512, SHARDS = 12, KEYS = SHARD * SHARDS - 100, DIM = 64 };
enum { ROWS = HEADS * QUERIES, PARTIAL = ROWS * (DIM + 1) };

static int shard_keys(int shard)
{
    return shard == SHARDS - 1 ? KEYS - shard * SHARD : SHARD;
}

/* Stands for a cache that only the rank that owns it holds: any key's numbers, made where they are needed. */
static void make_keys(int shard, float *k, float *v)
{
    int count = shard_keys(shard);
    for (int h = 0; h < KV_HEADS; h++)
        for (int j = 0; j < count; j++)
            for (int d = 0; d < DIM; d++) {
                long element = ((long)h * KEYS + (long)shard * SHARD + j) * DIM + d;
                k[(h * count + j) * DIM + d] = sinf(0.73f * (float)(element % 8191));
                v[(h * count + j) * DIM + d] = sinf(1.31f * (float)(element % 6553));
            }
}

/* One shard's partial result: ROWS x DIM of out, then ROWS of LSE. */
static int attend_shard(const float *q, int shard, float *partial)
{
    static float k[KV_HEADS * SHARD * DIM], v[KV_HEADS * SHARD * DIM];
    make_keys(shard, k, v);
    heed_attention attention = HEED_ATTENTION_INIT;
    attention.batch = 1;
    attention.num_heads = HEADS;
    attention.num_kv_heads = KV_HEADS;
    attention.seq_len_q = QUERIES;
    attention.seq_len_kv = shard_keys(shard);
    attention.head_dim = DIM;
    /* The last query stands at the last key of the whole; a shard's own keys begin later. */
    attention.causal = HEED_CAUSAL_OFFSET;
    attention.causal_offset = KEYS - QUERIES - shard * SHARD;
    heed_tensors tensors = HEED_TENSORS_INIT;
    tensors.q = q;
    tensors.k = k;
    tensors.v = v;
    tensors.out = partial;
    tensors.lse = partial + ROWS * DIM;
    heed_error error;
    if (heed_attend(&attention, &tensors, NULL, &error) == HEED_OK)
        return 1;
    fprintf(stderr, "heed: shard %d: %s\n", shard, error.message);
    return 0;
}

/* All partials at once, in the order of the keys: the one order every number of ranks shares. */
static int merge_shards(const float *partials, float *out, float *lse)
{
    const float *outs[SHARDS], *lses[SHARDS];
    for (int s = 0; s < SHARDS; s++) {
        outs[s] = partials + (size_t)s * PARTIAL;
        lses[s] = outs[s] + ROWS * DIM;
    }
    heed_error error;
    if (heed_merge(SHARDS, ROWS, DIM, outs, DIM, lses, out, DIM, lse, NULL, &error) == HEED_OK)
        return 1;
    fprintf(stderr, "heed: %s\n", error.message);
    return 0;
}

/* Each rank its run of shards; all ranks end with all partials, in order. */
static int attend_sharded(const float *q, int rank, int ranks, float *partials)
{
    int counts[SHARDS], starts[SHARDS], good = 1;
    for (int r = 0; r < ranks; r++) {
        starts[r] = SHARDS * r / ranks * PARTIAL;
        counts[r] = SHARDS * (r + 1) / ranks * PARTIAL - starts[r];
    }
    for (int s = SHARDS * rank / ranks; s < SHARDS * (rank + 1) / ranks; s++)
        good = attend_shard(q, s, partials + (size_t)s * PARTIAL) && good;
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, partials, counts, starts, MPI_FLOAT, MPI_COMM_WORLD);
    return good;
}

/* The same in this process alone. */
static int attend_alone(const float *q, float *partials)
{
    int good = 1;
    for (int s = 0; s < SHARDS; s++)
        good = attend_shard(q, s, partials + (size_t)s * PARTIAL) && good;
    return good;
}

int main(int argc, char **argv)
{
    int rank, ranks, good, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks > SHARDS) {
        if (rank == 0)
            fprintf(stderr, "sharded: at most %d ranks\n", SHARDS);
        MPI_Finalize();
        return 2;
    }
    static float q[ROWS * DIM], partials[SHARDS * PARTIAL], out[ROWS * DIM], lse[ROWS], alone_out[ROWS * DIM],
        alone_lse[ROWS];
    for (int i = 0; i < ROWS * DIM; i++)
        q[i] = sinf(0.37f * (float)i);
    good = attend_sharded(q, rank, ranks, partials) && merge_shards(partials, out, lse);
    memset(partials, 0, sizeof partials);
    good = good && attend_alone(q, partials) && merge_shards(partials, alone_out, alone_lse);
    good = good && memcmp(out, alone_out, sizeof out) == 0 && memcmp(lse, alone_lse, sizeof lse) == 0;
    MPI_Allreduce(&good, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0)
        printf("sharded: %d keys in %d shards on %d ranks: bits %s one process\n", KEYS, SHARDS, ranks,
            all ? "as in" : "DIFFERENT from");
    MPI_Finalize();
    return all ? 0 : 1;
}
