/* The help texts.
 * May know: the options of every command, as text.
 * Must not know: what they do. */
#include "command.h"

#include <string.h>

static const char help_program[] =
    "heed: self-attention on the CPU\n"
    "\n"
    "usage: heed COMMAND [options]\n"
    "\n"
    "  heed info     what this machine and this build offer\n"
    "  heed run      attention on .npy files, or one layer of a model from .safetensors\n"
    "  heed show     attention weights as a picture or on the terminal\n"
    "  heed verify   computes fixed cases on every backend and compares\n"
    "  heed help COMMAND, heed COMMAND --help\n"
    "  heed --version\n"
    "\n"
    "Exit status: 0 success, 1 a check failed (heed verify), 2 bad input or failure.\n";

static const char help_info[] =
    "usage: heed info [--json]\n"
    "\n"
    "Prints the CPU and its features, the backends (compiled, usable, chosen and why), caches, threads and how the\n"
    "program was built.  --json prints the same as one JSON object.\n";

/* Two pieces: C11 compilers need not take a longer literal. */
static const char help_run[] =
    "usage: heed run --q Q.npy --k K.npy --v V.npy [options] -o OUT.npy\n"
    "       heed run --x X.npy --weights MODEL.safetensors --layer N --heads H [options] -o OUT.npy\n"
    "\n"
    "The first form computes softmax(scale Q K^T + mask) V.  The arrays are [B,H,L,D], [H,L,D] or [L,D]; K and V may\n"
    "have fewer heads (GQA, MQA).  The second runs a whole self-attention layer on hidden states [L,W] or [B,L,W]:\n"
    "projections, attention, output projection.  BERT's and Llama's tensor names are known.\n"
    "\n"
    "NO RoPE YET: Llama-like weights run WITHOUT rotary position embedding, so the result is not the model's.\n"
    "\n";

static const char help_run_options[] =
    "  --causal[=bottom-right|top-left|OFFSET]\n"
    "                    query i sees keys j <= i + offset.  bottom-right, which plain --causal means: the last query\n"
    "                    sees every key; top-left: offset 0, as PyTorch's is_causal.  They differ unless Lq = Lk\n"
    "  --lengths A,B,..  keys of each batch entry; with --x its positions\n"
    "  --lengths-q A,..  queries of each batch entry (first form)\n"
    "  --layout bhsd|bshd   order of the dimensions (first form): heads before positions, or after\n"
    "  --scale S         of the scores; 0 and the default are 1/sqrt(head_dim)\n"
    "  --layer N         which layer, from 0 (second form)\n"
    "  --heads H         number of query heads (second form)\n"
    "  --kv-heads N      checked against the weights, from whose shapes it is known (second form)\n"
    "  --names q=NAME,k=NAME,v=NAME,o=NAME[,bq=NAME,bk=NAME,bv=NAME,bo=NAME]\n"
    "                    tensor names of weights and biases; {layer} stands for the number (second form)\n"
    "  --isa auto|scalar|avx2|avx512|neon   the backend; one this CPU cannot run is refused\n"
    "  --threads N       at most this many threads\n"
    "  --exp default|builtin|sleef\n"
    "  -o, --output FILE    the output\n"
    "  --lse FILE        log of the sum of exp(score), [B,H,L]\n"
    "  --attention FILE  the weights, [B,H,Lq,Lk]\n"
    "  --quiet           no summary\n"
    "\n"
    "Inputs: .npy of f2, f4, f8; .safetensors of F16, BF16, F32, F64; computed in 32 bits.  Output files are f4.\n";

static const char help_show[] =
    "usage: heed show WEIGHTS.npy [options]              on the terminal\n"
    "       heed show WEIGHTS.npy -o MAP.png [options]   a picture (needs libpng)\n"
    "       heed show WEIGHTS.npy --row I [options]      one query's weights as a list\n"
    "\n"
    "Draws attention weights, [batch, heads, queries, keys] or the last three or two of them, as maps: rows are "
    "queries,\n"
    "columns are keys.  Maps too large to draw show the maximum (or mean) of blocks, and say so.\n"
    "\n"
    "  -o, --output FILE  the picture\n"
    "  --tokens FILE     labels of queries and keys, one a line, UTF-8; --tokens-q and --tokens-k for either alone\n"
    "  --batch B, --head H   which, from 0; without them batch 0 and all heads\n"
    "  --row I           list the weights of query I, for each head shown\n"
    "  --sort, --top N   the list by weight; its N largest alone (both only with --row)\n"
    "  --max V           the end of the colour scale; without it the largest weight\n"
    "  --reduce max|mean what a cell shows that stands for several weights\n"
    "  --width N         pixels of the picture at most, or columns of the terminal\n"
    "  --title TEXT      above the maps; without it the file's name\n"
    "  --ascii           no colours and no characters outside ASCII on the terminal\n";

static const char help_verify[] =
    "usage: heed verify [--quick] [--isa NAME] [--json] [--write FILE] [--check FILE]\n"
    "\n"
    "Runs a fixed set of seeded cases on every usable backend and with several thread counts.  Per case: whether all "
    "bits\n"
    "agree, the largest error against double precision, and one fingerprint of the result.\n"
    "\n"
    "  --quick           a quarter of the cases\n"
    "  --isa NAME        only this backend: scalar, avx2, avx512, neon\n"
    "  --json            one JSON object instead of the table\n"
    "  --write FILE      write the fingerprints, to be checked on another machine; only if all agree\n"
    "  --check FILE      compare with fingerprints written elsewhere\n"
    "\n"
    "Exit status: 0 all agree, 1 something differs or is too far from double precision, 2 failure.\n";

/* The texts of a command, one after the other. */
typedef struct help_entry {
    const char *command;
    const char *texts[2];
} help_entry;

bool help_print(FILE *file, const char *command)
{
    static const help_entry entries[] = {
        { "info", { help_info, "" } },
        { "run", { help_run, help_run_options } },
        { "show", { help_show, "" } },
        { "verify", { help_verify, "" } },
    };
    if (!command) {
        fputs(help_program, file);
        return true;
    }
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(command, entries[i].command) == 0) {
            fputs(entries[i].texts[0], file);
            fputs(entries[i].texts[1], file);
            return true;
        }
    }
    return false;
}
