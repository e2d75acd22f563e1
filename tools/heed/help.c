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
    "Exit status: 0 success, 1 a check failed (heed verify, heed run --expect), 2 bad input or failure.\n";

static const char help_info[] =
    "usage: heed info [--json]\n"
    "\n"
    "Prints the CPU and its features, the backends (compiled, usable, chosen and why), caches, threads and how the\n"
    "program was built.  --json prints the same as one JSON object.\n";

/* In pieces: C11 compilers need not take a longer literal. */
static const char help_run[] =
    "usage: heed run --q Q.npy --k K.npy --v V.npy [options] -o OUT.npy\n"
    "       heed run --x X.npy --weights MODEL.safetensors --layer N --heads H [options] -o OUT.npy\n"
    "\n"
    "The first form computes softmax(scale Q K^T + mask) V.  The arrays are [B,H,L,D], [H,L,D] or [L,D]; K and V may\n"
    "have fewer heads (GQA, MQA).  The second runs a whole self-attention layer on hidden states [L,W] or [B,L,W]:\n"
    "projections, rotary position embedding, attention, output projection.  BERT's and Llama's tensor names are "
    "known.\n"
    "\n"
    "Both forms:\n"
    "  --causal[=bottom-right|top-left|OFFSET]\n"
    "                    query i sees keys j <= i + offset.  bottom-right, which plain --causal means: the last query\n"
    "                    sees every key; top-left: offset 0, as PyTorch's is_causal.  They differ unless Lq = Lk\n"
    "  --window LEFT,RIGHT  query i, at position p = i + offset (of --causal, else Lk - Lq), sees keys p - LEFT to\n"
    "                    p + RIGHT; -1 is unlimited\n"
    "  --softcap C       scores become C tanh(score / C)\n"
    "  --lengths A,B,..  keys of each batch entry; with --x its positions\n"
    "  --scale S         of the scores; 0 and the default are 1/sqrt(head_dim)\n"
    "  --isa auto|scalar|avx2|avx512|neon   the backend; one this CPU cannot run is refused\n"
    "  --threads N       at most this many threads\n"
    "  --exp default|builtin|sleef\n"
    "\n";

static const char help_run_forms[] =
    "First form:\n"
    "  --layout bhsd|bshd   order of the dimensions: heads before positions, or after\n"
    "  --lengths-q A,..  queries of each batch entry\n"
    "  --bias FILE       added to the scores, -inf hides a key: [B,H,Lq,Lk], each may be 1 or, from the left, missing\n"
    "  --mask FILE       the same of dtype bool or uint8: False, 0 hides a key\n"
    "  --alibi FILE      slope of each head [H]: slope (j - p) is added to the scores\n"
    "  --sinks FILE      for each head [H] the score of a key without a value that every row sees\n"
    "  --decode-step[=N] only the last N queries (default 1), the last of K, causal: what a decode step computes.  "
    "With\n"
    "                    --lengths, Q has just these.  --expect takes values of them or of all queries\n"
    "  --kv-type f32|f16|bf16|i8   K and V go through a cache of this type\n"
    "  --page-size 16|32|64|128    the cache has pages of so many tokens\n"
    "  --bf16-npy        .npy of dtype V2 are bfloat16, as ml_dtypes saves it\n"
    "\n"
    "Second form:\n"
    "  --layer N         which layer, from 0\n"
    "  --heads H         number of query heads\n"
    "  --kv-heads N      checked against the weights, from whose shapes it is known\n"
    "  --names q=NAME,k=NAME,v=NAME,o=NAME[,bq=NAME,bk=NAME,bv=NAME,bo=NAME]\n"
    "                    tensor names of weights and biases; {layer} stands for the number\n"
    "  --rope none|halves|interleaved\n"
    "                    rotary position embedding (RoPE) of queries and keys, and what its pairs are.  The default "
    "is\n"
    "                    halves with Llama's names, none with others\n"
    "  --rope-base B     default 10000; rope_theta in the model's config.json\n"
    "  --rope-dim N      rotated elements of a head; default all\n"
    "  --rope-scaling linear:F | llama3:F,LOW,HIGH,ORIG | yarn:F,ORIG   rope_scaling in config.json; default none\n"
    "  --rope-offset N   position of the first row; default 0\n"
    "\n";

static const char help_run_outputs[] =
    "Results:\n"
    "  -o, --output FILE    the output\n"
    "  --lse FILE        log of the sum of exp(score), [B,H,L]\n"
    "  --attention FILE  the weights, [B,H,Lq,Lk]\n"
    "  --expect FILE, --expect-attention FILE\n"
    "                    compares output, weights with these values, and prints the error\n"
    "  --tolerance T     exit status 1 if an error is above T times the largest expected value; default 1e-5\n"
    "  --quiet           no summary\n"
    "\n"
    "Inputs: .npy of f2, f4, f8; .safetensors of F16, BF16, F32, F64; computed in 32 bits.  Output files are f4.\n"
    "--q, --k and --v take FILE.safetensors:NAME too; without :NAME the tensor is q, k or v, or the file's only one.\n";

static const char help_show[] =
    "usage: heed show WEIGHTS.npy [options]\n"
    "       heed show WEIGHTS.npy -o MAP.png [options]\n"
    "\n"
    "Draws attention weights [Lq,Lk], [H,Lq,Lk] or [B,H,Lq,Lk], as heed run --attention writes them: a heat map for "
    "each\n"
    "head, rows are queries, columns are keys.  With -o a PNG picture; else on the terminal, in colour if stdout is a\n"
    "terminal and NO_COLOR is not set, in shades of ASCII otherwise.\n"
    "\n";

static const char help_show_options[] =
    "  -o, --output FILE  write a PNG picture\n"
    "  --tokens FILE      labels of rows and columns: UTF-8, one token a line, as many lines as positions\n"
    "  --tokens-q FILE, --tokens-k FILE\n"
    "                     labels of the rows (queries), of the columns (keys)\n"
    "  --head N           one head only, from 0\n"
    "  --batch N          which entry of the batch; default 0\n"
    "  --row N            list the weights of query N, from 0, instead of a map on the terminal\n"
    "  --sort             with --row: largest first\n"
    "  --top N            with --row: the first N of the list, and the sum of the rest\n"
    "  --max V            end of the colour scale; default: the largest cell shown\n"
    "  --reduce max|mean  what a cell shows that stands for several weights of a large matrix; default max\n"
    "  --width N          at most so many pixels (400 to 16384; default 1760) or columns of the terminal (20 to 4096)\n"
    "  --title TEXT       default: the name of the file\n"
    "  --ascii            plain ASCII on any terminal\n";

static const char help_verify[] =
    "usage: heed verify [--quick] [--isa NAME] [--write FILE] [--check FILE] [--json]\n"
    "\n"
    "Runs fixed cases (attention with and without masks, over caches of every type and page size, projections, the\n"
    "layer, softmax, RoPE; both exp) on every usable backend, with one thread and with three, and compares the\n"
    "results bit for bit; any NaN equals any NaN, -0 equals +0.  Prints for each case its error against f64 and a\n"
    "fingerprint of the bits, which is the same on every machine; of a cache it is also the same however it is "
    "stored.\n"
    "\n"
    "  --quick        about a quarter of the cases\n"
    "  --isa NAME     only this backend: scalar, avx2, avx512, neon\n"
    "  --write FILE   writes the fingerprints as JSON, if everything agrees\n"
    "  --check FILE   compares with such a file, perhaps of another machine; missing and additional cases are "
    "differences\n"
    "  --json         the report as JSON\n"
    "\n"
    "max error: largest |v - r| of an output (out, lse, weights, y) over its largest |r|; r is the value in f64.  max "
    "ULP:\n"
    "largest |v - r| in units in the last place of r, where r is a normal number; large where a sum cancels.\n"
    "Cases with SLEEF are not run where it cannot be used; they are marked and never counted as agreeing.\n"
    "\n"
    "Exit status: 0 all that was run agrees, 1 there are differences, 2 bad input.\n";

enum { PIECES = 3 };

/* The texts of a command, one after the other. */
typedef struct help_entry {
    const char *command;
    const char *texts[PIECES];
} help_entry;

bool help_print(FILE *file, const char *command)
{
    static const help_entry entries[] = {
        { "info", { help_info, "", "" } },
        { "run", { help_run, help_run_forms, help_run_outputs } },
        { "show", { help_show, help_show_options, "" } },
        { "verify", { help_verify, "", "" } },
    };
    if (!command) {
        fputs(help_program, file);
        return true;
    }
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (strcmp(command, entries[i].command) == 0) {
            for (int piece = 0; piece < PIECES; piece++) {
                fputs(entries[i].texts[piece], file);
            }
            return true;
        }
    }
    return false;
}
