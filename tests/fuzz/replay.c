/* A main for a libFuzzer entry where there is no fuzzer: replays every file of the folders given, then changes each at
 * random, the same way each time.   replay [-variants=N] FOLDER...
 * May know: POSIX folders.
 * Must not know: what is fuzzed. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 16 };

static long variants = 2000; /* changed copies of each file */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* In memory of exactly its size, so that a sanitizer sees a step beyond. */
static void feed(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    if (!copy) {
        abort();
    }
    memcpy(copy, bytes, size);
    LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

static uint32_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(*state >> 33);
}

static void feed_variants(const uint8_t *original, size_t size, uint64_t *state)
{
    static const char *const pieces[] = { "9223372036854775807", "-1", "{", "[", "]", "}", "(", ")", ",", "\"", "'",
        "\\u", "\xFF", "0", "," };
    uint8_t *bytes = malloc(size + 32);
    if (!bytes || size == 0) {
        free(bytes);
        return;
    }
    for (long variant = 0; variant < variants; variant++) {
        memcpy(bytes, original, size);
        size_t now = size;
        for (uint32_t changes = 1 + next_random(state) % 4; changes > 0; changes--) {
            size_t at = next_random(state) % size;
            const char *piece = pieces[next_random(state) % (sizeof pieces / sizeof pieces[0])];
            switch (next_random(state) % 4) {
            case 0: bytes[at] = (uint8_t)next_random(state); break;
            case 1: bytes[at] ^= (uint8_t)(1U << next_random(state) % 8); break;
            case 2: memcpy(bytes + at, piece, strlen(piece)); break;
            default: now = 1 + next_random(state) % size; break;
            }
        }
        feed(bytes, now);
    }
    free(bytes);
}

/* Returns the number of files. */
static int replay_folder(const char *path, uint64_t *state)
{
    static uint8_t bytes[FILE_MAX];
    char name[4096];
    int files = 0;
    DIR *folder = opendir(path);
    for (struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        FILE *file = entry->d_name[0] == '.' ? NULL : fopen(name, "rb");
        if (!file) {
            continue;
        }
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        feed(bytes, size);
        feed_variants(bytes, size, state);
        files++;
    }
    if (folder) {
        closedir(folder);
    }
    return files;
}

int main(int argc, char **argv)
{
    uint64_t state = 1;
    int first = 1;
    if (argc > 1 && strncmp(argv[1], "-variants=", 10) == 0) {
        variants = strtol(argv[first++] + 10, NULL, 10);
    }
    for (int i = first; i < argc; i++) {
        int files = replay_folder(argv[i], &state);
        printf("%s: %d files, %ld variants of each\n", argv[i], files, variants);
        if (files == 0) {
            fprintf(stderr, "%s: no files\n", argv[i]);
            return 1;
        }
    }
    return argc > first ? 0 : 1;
}
