// SPDX-License-Identifier: BSD-3-Clause
#include "linked_libraries.h"

#include <link.h>

#include <string_view>

namespace gaudi::ucm {
namespace {

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Whether the object with this dynamic section depends on libhl-thunk, by its usual name or by that of the file in use.
bool depends_on_thunk(const ElfW(Dyn) * section, std::string_view used) {
    const char *strings = nullptr;
    for (const ElfW(Dyn) *entry = section; entry->d_tag != DT_NULL; ++entry)
        if (entry->d_tag == DT_STRTAB)
            strings = reinterpret_cast<const char *>(entry->d_un.d_ptr);
    if (!strings)
        return false;
    for (const ElfW(Dyn) *entry = section; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag != DT_NEEDED)
            continue;
        const std::string_view name = file_name(strings + entry->d_un.d_val);
        if (name.starts_with("libhl-thunk") || name == used)
            return true;
    }
    return false;
}

int visit(dl_phdr_info *info, std::size_t, void *used) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        const ElfW(Phdr) &segment = info->dlpi_phdr[i];
        if (segment.p_type == PT_DYNAMIC)
            return depends_on_thunk(reinterpret_cast<const ElfW(Dyn) *>(info->dlpi_addr + segment.p_vaddr),
                                    *static_cast<const std::string_view *>(used))
                       ? 1
                       : 0;
    }
    return 0;
}

} // namespace

bool is_linked_by_loaded_library(const thunk::Library &thunk) {
    std::string_view used = file_name(thunk.path());
    return dl_iterate_phdr(visit, &used) != 0;
}

} // namespace gaudi::ucm
