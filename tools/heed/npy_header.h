/* The header of a .npy file, read strictly.
 * May know: the format.
 * Must not know: how the data is stored in memory. */
#ifndef HEED_TOOL_NPY_HEADER_H
#define HEED_TOOL_NPY_HEADER_H

#include "element.h"
#include "npy.h"
#include "source.h"

typedef struct npy_header {
    npy_kind kind;
    element_type type;
    bool big_endian;
    bool fortran_order;
    int ndim;
    int64_t shape[NPY_MAX_DIMS]; /* each >= 0; the product is not checked */
    int64_t data_offset;         /* at most the size of the source */
} npy_header;

/* Accepts exactly the dictionary that NumPy writes: keys descr, fortran_order and shape, each once, in any order; of
 * the dtypes those of the kind. */
bool npy_read_header(const source *input, npy_kind kind, npy_header *header, char *message, size_t size);

#endif
