/* SPDX-License-Identifier: MIT */
/* virtual_driver.c -- a fresh copy of the virtual driver's library for each test.
 */
#include "support/virtual_driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void set_settings(const virtual_driver *driver, const char *const *settings)
{
    static const char *const all[] = {
        "DEVICES", "VERSION",  "CAPABILITY", "MEMORY", "OTHERS", "PINNED", "SM",
        "P2P",     "PARTNERS", "SEED",       "JITTER", "STRICT", "RACES",  "STICKY",
        "BUDGET",  "THREADS",  "TRACE",      "FAIL",   "LINKS",  "NAME",
    };
    char name[64];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        snprintf(name, sizeof name, "LOCKSTEP_VGPU_%s", all[i]);
        unsetenv(name);
    }
    setenv("LOCKSTEP_VGPU_TRACE", driver->trace, 1);
    for (; *settings != NULL; settings++) {
        const char *value = strchr(*settings, '=');
        snprintf(name, sizeof name, "LOCKSTEP_VGPU_%.*s", (int)(value - *settings), *settings);
        setenv(name, value + 1, 1);
    }
}

static bool copy_file(const char *from, const char *to)
{
    char buffer[65536];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    bool good = in != NULL && out != NULL;
    for (size_t n; good && (n = fread(buffer, 1, sizeof buffer, in)) > 0;)
        good = fwrite(buffer, 1, n, out) == n;
    if (in != NULL) fclose(in);
    return (out == NULL || fclose(out) == 0) && good;
}

/* dlsym's void * holds a function: POSIX says so, C does not. */
static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static const char *load(virtual_driver *driver, const char *folder)
{
    char path[96];
    const char *library = getenv("LOCKSTEP_VGPU_LIBRARY");
    if (library == NULL || library[0] == '\0') return "LOCKSTEP_VGPU_LIBRARY is not set";
    snprintf(path, sizeof path, "%s/libcuda.so.1", folder);
    if (!copy_file(library, path)) return "the library cannot be copied";
    driver->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (driver->library == NULL) return dlerror();
#define FIND(name, type, parameters) \
    if (!find(driver->library, #name, &driver->name)) return "no " #name;
    VGPU_ENTRY_POINTS(FIND)
    return NULL;
}

const char *virtual_driver_open(virtual_driver *driver, const char *const *settings)
{
    char folder[64];
    const char *temporary = getenv("TMPDIR");
    *driver = (virtual_driver){ 0 };
    snprintf(folder, sizeof folder, "%.40s/vgpu-XXXXXX", temporary != NULL ? temporary : "/tmp");
    if (mkdtemp(folder) == NULL) return "no temporary folder";
    snprintf(driver->trace, sizeof driver->trace, "%s/trace", folder);
    set_settings(driver, settings);
    return load(driver, folder);
}

void virtual_driver_close(virtual_driver *driver)
{
    char *slash = strrchr(driver->trace, '/');
    if (slash == NULL) return;
    unlink(driver->trace);
    memcpy(slash, "/libcuda.so.1", sizeof "/libcuda.so.1");
    unlink(driver->trace);
    *slash = '\0';
    rmdir(driver->trace);
    *driver = (virtual_driver){ 0 };
}

bool virtual_driver_traced(const virtual_driver *driver, const char *text)
{
    char line[2048];
    bool found = false;
    FILE *trace = fopen(driver->trace, "r");
    if (trace == NULL) return false;
    while (!found && fgets(line, sizeof line, trace) != NULL) found = strstr(line, text) != NULL;
    fclose(trace);
    return found;
}
