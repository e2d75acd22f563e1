/* What the operating system tells about the machine.
 * May know: /proc and /sys of Linux, POSIX.
 * Must not know: the library heed. */
#include "system.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_SIZE = 1024 };

/* Copies text without its end of line, cut to fit. */
static void copy_text(char *copy, size_t size, const char *text)
{
    snprintf(copy, size, "%.*s", (int)strcspn(text, "\n"), text);
}

/* The value of a line "key<blanks>: value", or NULL. */
static const char *value_of(const char *line, const char *key)
{
    size_t length = strlen(key);
    if (strncmp(line, key, length) != 0) {
        return NULL;
    }
    const char *at = line + length + strspn(line + length, " \t");
    if (*at != ':') {
        return NULL;
    }
    return at + 1 + strspn(at + 1, " \t");
}

/* The first value in the list of CPUs under any of these keys: x86 has names, Arm has numbers. */
static void read_cpu(const char *const *keys, char *text)
{
    char line[LINE_SIZE];
    FILE *file = fopen("/proc/cpuinfo", "r");
    copy_text(text, SYSTEM_TEXT, "unknown");
    if (!file) {
        return;
    }
    while (fgets(line, sizeof line, file)) {
        for (int i = 0; keys[i]; i++) {
            const char *value = value_of(line, keys[i]);
            if (value) {
                copy_text(text, SYSTEM_TEXT, value);
                fclose(file);
                return;
            }
        }
    }
    fclose(file);
}

/* One small file of CPU 0's cache number index. */
static int read_cache_file(int index, const char *name, char *text, size_t size)
{
    char path[128];
    char line[LINE_SIZE];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, name);
    FILE *file = fopen(path, "r");
    if (!file) {
        return 0;
    }
    int read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    if (read) {
        copy_text(text, size, line);
    }
    return read;
}

static int read_cache(int index, system_cache *cache)
{
    char level[16];
    char size[32];
    if (!read_cache_file(index, "level", level, sizeof level) ||
        !read_cache_file(index, "type", cache->type, sizeof cache->type) ||
        !read_cache_file(index, "size", size, sizeof size)) {
        return 0;
    }
    if (!read_cache_file(index, "shared_cpu_list", cache->shared_by, sizeof cache->shared_by)) {
        cache->shared_by[0] = 0;
    }
    char *unit;
    int64_t bytes = (int64_t)strtoll(size, &unit, 10);
    int64_t scale = *unit == 'K' ? 1024 : *unit == 'M' ? 1024 * 1024 : 1;
    cache->level = (int)strtol(level, NULL, 10);
    cache->type[0] = (char)tolower((unsigned char)cache->type[0]);
    cache->bytes = bytes > 0 && bytes < INT64_MAX / scale ? bytes * scale : 0;
    return cache->bytes > 0;
}

system_facts system_examine(void)
{
    static const char *const vendor[] = { "vendor_id", "CPU implementer", NULL };
    static const char *const model[] = { "model name", "CPU part", "cpu model", NULL };
    system_facts facts;
    memset(&facts, 0, sizeof facts);
    read_cpu(vendor, facts.vendor);
    read_cpu(model, facts.model);
    facts.online_cpus = (int64_t)sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < SYSTEM_CACHES && read_cache(i, &facts.caches[facts.num_caches]); i++) {
        facts.num_caches++;
    }
    return facts;
}
