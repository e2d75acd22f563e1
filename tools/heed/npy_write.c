/* Writing .npy files of version 1, dtype <f4, C order.
 * May know: the format.
 * Must not know: attention, the library heed. */
#include "command.h"
#include "npy.h"

#include <errno.h>
#include <string.h>

/* 8 dimensions of 19 digits and the fixed words; a multiple of 64, the alignment the format asks for. */
enum { PREAMBLE = 10, ALIGNMENT = 64, HEADER_CAPACITY = 320, CHUNK = 4096 };

static int write_dictionary(char *text, size_t size, int ndim, const int64_t *shape)
{
    int length = snprintf(text, size, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i < ndim; i++) {
        const char *after = ndim == 1 ? "," : i + 1 < ndim ? ", " : "";
        length += snprintf(text + length, size - (size_t)length, "%lld%s", (long long)shape[i], after);
    }
    length += snprintf(text + length, size - (size_t)length, "), }");
    return length;
}

static bool write_header(FILE *file, int ndim, const int64_t *shape)
{
    char text[HEADER_CAPACITY];
    int length = write_dictionary(text + PREAMBLE, sizeof text - PREAMBLE, ndim, shape);
    int total = (PREAMBLE + length + 1 + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    memset(text + PREAMBLE + length, ' ', (size_t)(total - PREAMBLE - length));
    text[total - 1] = '\n';
    int header = total - PREAMBLE;
    memcpy(text, "\x93NUMPY\x01\x00", 8);
    text[8] = (char)(header & 0xFF);
    text[9] = (char)(header >> 8);
    return fwrite(text, 1, (size_t)total, file) == (size_t)total;
}

bool npy_write(FILE *file, const float *data, int ndim, const int64_t *shape, char *message, size_t size)
{
    int64_t count = 0;
    if (ndim < 0 || ndim > NPY_MAX_DIMS || !checked_product(ndim, shape, &count)) {
        return complain(message, size, "shape: not one a .npy file can have");
    }
    bool written = write_header(file, ndim, shape);
    for (int64_t done = 0; written && done < count; done += CHUNK) {
        uint8_t bytes[CHUNK * 4];
        size_t now = (size_t)(count - done < CHUNK ? count - done : CHUNK);
        for (size_t i = 0; i < now; i++) {
            uint32_t bits;
            memcpy(&bits, &data[(size_t)done + i], sizeof bits);
            for (size_t b = 0; b < 4; b++) {
                bytes[4 * i + b] = (uint8_t)(bits >> (8 * b));
            }
        }
        written = fwrite(bytes, 4, now, file) == now;
    }
    if (!written) {
        return complain(message, size, "write: %s", strerror(errno));
    }
    return true;
}
