/* The libFuzzer entry of the command line: bytes become the words of a call of the program heed, run as a function in a folder with
 * a few small files.  Whatever the words: a known exit code; after 2 one line on stderr and no new file.
 * May know: the program as a function, its options and file formats, verify.h.
 * Must not know: how it works inside.
 *
 * No word holds a slash, so nothing outside the folder is written. */
#include "command.h"
#include "npy.h"
#include "verify.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum { WORDS_MOST = 24, WORD_SIZE = 96, ERRORS_SIZE = 1 << 14 };

static void require(bool truth)
{
    if (!truth)
        abort();
}

/* ---- In place of verify_run.c: the cases themselves take a second, and are no words ---- */

verify_backends verify_backends_find(heed_isa only)
{
    const verify_backends backends = { { only == HEED_ISA_AUTO ? HEED_ISA_SCALAR : only }, 1 };
    return backends;
}

void verify_run(const verify_case *item, const verify_backends *backends, verify_result *result)
{
    const verify_result same = {
        .ran = backends->count > 0, .same = true, .accurate = true, .fingerprint = (uint64_t)item->rows
    };
    *result = same;
}

/* ---- The folder ---- */

enum { FILES = 9 };

static const char *const names[FILES] = { "q.npy", "k.npy", "w.npy", "x.npy", "b.npy", "h.npy", "m.npy",
    "l.safetensors", "t.txt" };

static void write_array(const char *name, int ndim, const int64_t *shape)
{
    float values[96];
    char message[MESSAGE_SIZE];
    for (int i = 0; i < 96; i++)
        values[i] = (float)(i % 7) / 8.0f;
    FILE *file = fopen(name, "wb");
    require(file && npy_write(file, values, ndim, shape, message, sizeof message) && fclose(file) == 0);
}

static void write_bytes(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(name, "wb");
    require(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* An array of bytes, 3 x 5: a header of 118 bytes ends at 128. */
static void write_mask(const char *name)
{
    char file[128 + 15];
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\0\x76\0", 10);
    static const char header[] = "{'descr': '|b1', 'fortran_order': False, 'shape': (3, 5), }";
    memcpy(file + 10, header, sizeof header - 1);
    file[127] = '\n';
    memset(file + 128, 1, 15);
    write_bytes(name, file, sizeof file);
}

/* One layer of two heads of width 2, in Llama's names. */
static void write_model(const char *name)
{
    static const char *const parts[] = { "q", "k", "v", "o" };
    char file[2048] = "", header[1024] = "{";
    for (int i = 0; i < 4; i++) {
        char text[160];
        snprintf(text, sizeof text,
            "%s\"model.layers.0.self_attn.%s_proj.weight\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[%d,%d]"
            "}",
            i ? "," : "", parts[i], i * 64, i * 64 + 64);
        strcat(header, text);
    }
    strcat(header, "}");
    const size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        file[i] = (char)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header, length);
    write_bytes(name, file, 8 + length + 256);
}

static void write_file(int which)
{
    static const struct {
        int ndim;
        int64_t shape[4];
    } arrays[] = { { 3, { 2, 3, 4 } }, { 3, { 2, 5, 4 } }, { 3, { 2, 3, 5 } }, { 2, { 3, 4 } }, { 2, { 3, 5 } },
        { 1, { 2 } } };
    if (which < 6)
        write_array(names[which], arrays[which].ndim, arrays[which].shape);
    else if (which == 6)
        write_mask(names[which]);
    else if (which == 7)
        write_model(names[which]);
    else
        write_bytes(names[which], "one\ntwo\nthree\n", 14);
}

typedef struct place {
    int folder, back, errors, out, err, null; /* descriptors: the folder, where the process was, stderr's text, ... */
    struct stat files[FILES];
} place;

static void refresh(place *p, int which)
{
    struct stat now;
    const struct stat *old = &p->files[which];
    if (stat(names[which], &now) == 0 && now.st_ino == old->st_ino && now.st_size == old->st_size &&
        now.st_mtime == old->st_mtime)
        return;
    write_file(which);
    require(stat(names[which], &p->files[which]) == 0);
}

static place *open_place(void)
{
    static place p;
    static bool open_already;
    if (open_already)
        return &p;
    const char *root = getenv("TMPDIR");
    char path[512], errors[600];
    snprintf(path, sizeof path, "%s/heed-fuzz-XXXXXX", root && *root ? root : "/tmp");
    require(mkdtemp(path) != NULL);
    snprintf(errors, sizeof errors, "%s.errors", path);
    p.errors = open(errors, O_RDWR | O_CREAT | O_TRUNC, 0600);
    p.folder = open(path, O_RDONLY | O_DIRECTORY);
    p.back = open(".", O_RDONLY | O_DIRECTORY);
    p.null = open("/dev/null", O_WRONLY);
    require(p.errors >= 0 && p.folder >= 0 && p.back >= 0 && p.null >= 0);
    unlink(errors);
    open_already = true;
    return &p;
}

static bool known_name(const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name[0] == '.' && (name[1] == '\0' || strcmp(name, "..") == 0);
}

/* Removes what the call left; returns how many. */
static int remove_outputs(void)
{
    int count = 0;
    DIR *folder = opendir(".");
    require(folder != NULL);
    for (struct dirent *entry = readdir(folder); entry; entry = readdir(folder))
        if (!known_name(entry->d_name)) {
            count++;
            require(unlink(entry->d_name) == 0);
        }
    closedir(folder);
    return count;
}

/* ---- Words ---- */

static const char *const dictionary[] = { "run", "show", "verify", "info", "help", "--help", "-h", "--", "--json",
    "--version", "--q", "q.npy", "--k", "k.npy", "--v", "--x", "x.npy", "--weights", "l.safetensors", "--layer", "0",
    "--heads", "2", "--kv-heads", "1", "--names", "q=model.layers.{layer}.self_attn.q_proj.weight", "--causal",
    "top-left", "bottom-right", "-3", "--window", "2,-1", "--softcap", "1.5", "--lengths", "3", "5", "--lengths-q",
    "--scale", "--isa", "scalar", "avx2", "auto", "--threads", "--exp", "builtin", "sleef", "--layout", "bshd",
    "--bias", "b.npy", "--mask", "m.npy", "--alibi", "h.npy", "--sinks", "--rope", "halves", "interleaved", "none",
    "--rope-base", "--rope-dim", "--rope-scaling", "linear:2", "llama3:8,1,4,64", "yarn:4,64", "--rope-offset", "-o",
    "o.npy", "--lse", "lse.npy", "--attention", "a.npy", "--expect", "--expect-attention", "w.npy", "--tolerance",
    "1e-5", "--quiet", "--tokens", "t.txt", "--tokens-q", "--tokens-k", "--head", "--batch", "--row", "--sort", "--top",
    "--max", "--reduce", "mean", "max", "--width", "400", "--title", "--ascii", "o.png", "--quick", "--write",
    "--check", "=", "-o=", "1,2,3", "1e400", "9223372036854775808" };

enum { DICTIONARY = sizeof dictionary / sizeof dictionary[0] };

/* Above the dictionary: 250 and more glue the next word to this one, the rest is text of its own. */
static size_t next_word(const uint8_t *bytes, size_t size, char *word)
{
    size_t used = 1, length = strlen(word);
    const unsigned code = bytes[0];
    if (code < DICTIONARY) {
        strncat(word, dictionary[code], WORD_SIZE - 1 - length);
        return used;
    }
    for (unsigned left = code % 16; left > 0 && used < size && length < WORD_SIZE - 1; left--) {
        const char c = (char)bytes[used++];
        word[length++] = c == '/' || c == '\0' ? '_' : c;
    }
    word[length] = '\0';
    if (strncmp(word, "note", 4) == 0)
        word[0] = '_';
    if (code >= 250 && used < size)
        used += next_word(bytes + used, size - used, word);
    return used;
}

static int next_words(const uint8_t *bytes, size_t size, char words[WORDS_MOST][WORD_SIZE], char **argv)
{
    int argc = 1;
    argv[0] = strcpy(words[0], "heed");
    for (size_t at = 0; at < size && argc < WORDS_MOST; argc++) {
        words[argc][0] = '\0';
        at += next_word(bytes + at, size - at, words[argc]);
        argv[argc] = words[argc];
    }
    argv[argc] = NULL;
    return argc;
}

/* ---- The call ---- */

/* The one refusal that comes after the outputs are written: an expected file of another shape (heed.1). */
static bool expects(int argc, char **argv)
{
    bool found = false;
    for (int i = 1; i < argc; i++)
        found = found || strncmp(argv[i], "--expect", 8) == 0;
    return found;
}

/* "heed COMMAND: note: text".  No file is called note (next_word). */
static bool is_note(const char *line)
{
    const char *command = line + strcspn(line, ":");
    return strncmp(command, ": note: ", 8) == 0;
}

/* Lines on stderr: those of the error, those of notes. */
static void check_errors(const place *p, int code)
{
    static char text[ERRORS_SIZE];
    const ssize_t length = pread(p->errors, text, sizeof text - 1, 0);
    require(length >= 0 && length < ERRORS_SIZE - 1 && ftruncate(p->errors, 0) == 0);
    text[length] = '\0';
    int errors = 0;
    for (char *line = text; *line;) {
        char *end = strchr(line, '\n');
        require(end != NULL && strncmp(line, "heed", 4) == 0);
        *end = '\0';
        errors += !is_note(line);
        line = end + 1;
    }
    require(errors == (code == EXIT_BAD_INPUT) || code == EXIT_CHECK_FAILED);
}

static int call(place *p, int argc, char **argv)
{
    fflush(stdout);
    fflush(stderr);
    p->out = dup(STDOUT_FILENO);
    p->err = dup(STDERR_FILENO);
    require(dup2(p->null, STDOUT_FILENO) >= 0 && dup2(p->errors, STDERR_FILENO) >= 0);
    require(lseek(p->errors, 0, SEEK_SET) == 0);
    const int code = program(argc, argv);
    fflush(stdout);
    fflush(stderr);
    require(dup2(p->out, STDOUT_FILENO) >= 0 && dup2(p->err, STDERR_FILENO) >= 0);
    close(p->out);
    close(p->err);
    return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char words[WORDS_MOST][WORD_SIZE], *argv[WORDS_MOST + 1];
    const int argc = next_words(bytes, size, words, argv);
    if (argc < 2)
        return 0;
    place *p = open_place();
    require(fchdir(p->folder) == 0);
    for (int i = 0; i < FILES; i++)
        refresh(p, i);
    const int code = call(p, argc, argv);
    require(code >= EXIT_OK && code <= EXIT_BAD_INPUT);
    check_errors(p, code);
    const int left = remove_outputs();
    require(left == 0 || code != EXIT_BAD_INPUT || expects(argc, argv));
    require(fchdir(p->back) == 0);
    return 0;
}
