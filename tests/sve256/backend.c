/* The sve256 backend: the vector layer of this folder under the shared kernel texts.
 * May know: nothing of its own.  Must not know: anything else; what differs from other backends belongs in vec.h. */
#include "../../src/cpu.h"
#include "vec.h"
/* vec.h first: the kernels are written over it. */
#include "../../src/kernels/table.h"
