// SPDX-License-Identifier: BSD-3-Clause
#define _GNU_SOURCE // dladdr, dl_iterate_phdr
#include "core/core.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define CORE "libgaudi-core.so.1"

static const struct gaudi_module kModule = {GAUDI_CORE_INTERFACE, UCX_GAUDI_VERSION, GAUDI_FRAMEWORK};

/// Stores the path of the core if it is the object of `info`. The loader itself would look for the bare name in all of its
/// directories before it says that no such library is loaded.
static int find_core(struct dl_phdr_info *info, size_t size, void *path) {
    (void)size;
    const char *name = strrchr(info->dlpi_name, '/');
    if (strcmp(name ? name + 1 : info->dlpi_name, CORE) != 0)
        return 0;
    *(const char **)path = info->dlpi_name;
    return 1;
}

/// The core that the process has, of whichever installation, else the one beside `module`. Not a dependency of this file:
/// UCX says nothing about a module that cannot be loaded.
static void *open_core(const char *module) {
    const char *loaded = NULL;
    dl_iterate_phdr(find_core, &loaded);
    if (loaded)
        return dlopen(loaded, RTLD_NOW | RTLD_NOLOAD);
    char path[PATH_MAX];
    const char *name = strrchr(module, '/');
    snprintf(path, sizeof path, "%.*s" CORE, name ? (int)(name + 1 - module) : 0, module);
    return dlopen(path, RTLD_NOW);
}

/// UCX looks this function up in a module that it has loaded, and calls it once.
__attribute__((visibility("default"))) signed char ucs_module_global_init(void) {
    Dl_info self = {0};
    dladdr(&kModule, &self);
    void *core = open_core(self.dli_fname);
    signed char (*load)(const struct gaudi_module *, void *) = NULL;
    if (core)
        *(void **)&load = dlsym(core, "gaudi_core_load");
    if (load)
        return load(&kModule, __builtin_return_address(0));
    if (strcmp(kModule.framework, "uct") == 0) // once, and not for each module
        fprintf(stderr,
                "ucx-gaudi: no Gaudi support: %s (ucx-gaudi %s) cannot use its core: %s; install ucx-gaudi again\n",
                self.dli_fname, kModule.version, dlerror());
    return -22; // UCS_ERR_UNSUPPORTED
}
