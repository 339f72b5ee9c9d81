// SPDX-License-Identifier: BSD-3-Clause
#include "objects.h"

#include <dlfcn.h>
#include <link.h>

#include <cctype>
#include <cstdint>
#include <cstring>
#include <exception>
#include <utility>

namespace gaudi::ucx {
namespace {

struct Search {
    std::string_view library;
    std::vector<std::string> names;
    std::exception_ptr thrown; // kept for later: nothing may be thrown through the loader
};

bool is_file_of(std::string_view path, std::string_view library) {
    const std::string_view file = path.substr(path.rfind('/') + 1);
    if (file.substr(0, library.size()) != library || file.size() == library.size())
        return false;
    const char next = file[library.size()];
    return next != '_' && std::isalnum(static_cast<unsigned char>(next)) == 0;
}

int visit(dl_phdr_info *info, std::size_t, void *data) noexcept {
    auto &search = *static_cast<Search *>(data);
    try {
        if (info->dlpi_name != nullptr && is_file_of(info->dlpi_name, search.library))
            search.names.emplace_back(info->dlpi_name);
        return 0;
    } catch (...) {
        search.thrown = std::current_exception();
        return 1;
    }
}

/// Whether a relocation of this kind holds the address of a symbol.
constexpr bool holds_address(std::uint64_t info) noexcept {
#if defined(__x86_64__)
    return ELF64_R_TYPE(info) == R_X86_64_GLOB_DAT || ELF64_R_TYPE(info) == R_X86_64_64;
#elif defined(__aarch64__)
    return ELF64_R_TYPE(info) == R_AARCH64_GLOB_DAT || ELF64_R_TYPE(info) == R_AARCH64_ABS64;
#else
#error "unknown architecture: name the relocations that hold the address of a symbol"
#endif
}

} // namespace

std::vector<std::string> list_loaded_objects(std::string_view library) {
    Search search{library, {}, {}};
    ::dl_iterate_phdr(visit, &search);
    if (search.thrown)
        std::rethrow_exception(search.thrown);
    return std::move(search.names);
}

void *reference_object(const std::string &name) noexcept { return ::dlopen(name.c_str(), RTLD_LAZY | RTLD_NOLOAD); }

void *reference_object_at(const void *address) noexcept {
    Dl_info info{};
    if (address == nullptr || ::dladdr(address, &info) == 0 || info.dli_fname == nullptr)
        return nullptr;
    return ::dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
}

void *find_variable(void *object, const char *name) noexcept {
    void *own = ::dlsym(object, name);
    link_map *map = nullptr;
    if (own == nullptr || ::dlinfo(object, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr)
        return own;

    const ElfW(Rela) *relocations = nullptr;
    std::size_t bytes = 0;
    const ElfW(Sym) *symbols = nullptr;
    const char *strings = nullptr;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_RELA)
            relocations = reinterpret_cast<const ElfW(Rela) *>(entry->d_un.d_ptr);
        else if (entry->d_tag == DT_RELASZ)
            bytes = entry->d_un.d_val;
        else if (entry->d_tag == DT_SYMTAB)
            symbols = reinterpret_cast<const ElfW(Sym) *>(entry->d_un.d_ptr);
        else if (entry->d_tag == DT_STRTAB)
            strings = reinterpret_cast<const char *>(entry->d_un.d_ptr);
    }
    if (relocations == nullptr || symbols == nullptr || strings == nullptr)
        return own;
    // The loader has written the address of the variable to every place where the object refers to it.
    for (const ElfW(Rela) *end = relocations + bytes / sizeof(*relocations); relocations != end; ++relocations) {
        if (!holds_address(relocations->r_info) || relocations->r_addend != 0)
            continue;
        const ElfW(Sym) &symbol = symbols[ELF64_R_SYM(relocations->r_info)];
        if (std::strcmp(strings + symbol.st_name, name) == 0)
            return *reinterpret_cast<void **>(map->l_addr + relocations->r_offset);
    }
    return own; // the object refers to its own variable without a relocation
}

} // namespace gaudi::ucx
