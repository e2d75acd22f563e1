/* Weights files for the tests of heed show.
 * May know: npy.h, check.h.
 * Must not know: how they are shown. */
#include "weights.h"
#include "check.h"
#include "npy.h"
#include "program.h"

#include <stdio.h>
#include <stdlib.h>

void weights_save(const char *path, const float *values, int ndim, const int64_t *shape)
{
    char message[400];
    FILE *file = fopen(path, "wb");
    if (!file || !npy_write(file, values, ndim, shape, message, sizeof message) || fclose(file) != 0)
        check_fatal("a weights file cannot be written");
}

void weights_cats(void)
{
    static const float values[9] = { 0.163f, 0.673f, 0.163f, 0.578f, 0.211f, 0.211f, 0.3f, 0.3f, 0.4f };
    static const int64_t shape[2] = { 3, 3 };
    static const char tokens[] = "cats\nchase\nmice\n";
    weights_save("cats.npy", values, 2, shape);
    file_put("cats.txt", tokens, sizeof tokens - 1);
}

void weights_identity(const char *path, int64_t heads, int64_t size)
{
    const int64_t shape[3] = { heads, size, size };
    float *values = check_floats((size_t)(heads * size * size));
    for (int64_t row = 0; row < heads * size; row++)
        values[row * size + row % size] = 1.0f;
    weights_save(path, values, 3, shape);
    free(values);
}

void weights_spike(const char *path, int64_t rows, int64_t cols, int64_t row, int64_t col, float spike)
{
    const int64_t shape[2] = { rows, cols };
    float *values = check_floats((size_t)(rows * cols));
    for (int64_t i = 0; i < rows * cols; i++)
        values[i] = 1.0f / (float)cols;
    values[row * cols + col] = spike;
    weights_save(path, values, 2, shape);
    free(values);
}
