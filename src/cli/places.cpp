// SPDX-License-Identifier: BSD-3-Clause
#include "places.h"

#include <fmt/format.h>

#include <cstdlib>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

OrSentence<fs::path> beside_us(const char *relative) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        return Sentence(fmt::format("cannot tell where this program is: /proc/self/exe: {}", error.message()));
    fs::path found = (self.parent_path() / ".." / relative).lexically_normal();
    if (!fs::exists(found, error))
        return Sentence(fmt::format("{} is missing: it belongs beside this program", found.string()));
    return found;
}

} // namespace

OrSentence<fs::path> module_directory() { return beside_us("lib/ucx-gaudi"); }

OrSentence<fs::path> softgaudi_library() { return beside_us("lib/softgaudi/libhl-thunk.so"); }

OrSentence<fs::path> softhca_library() { return beside_us("lib/softhca/libsofthca.so"); }

fs::path engines_directory() {
    const char *named = std::getenv("GAUDI_ENGINES");
    return named && *named ? named : UCX_GAUDI_ENGINES;
}

} // namespace gaudi::cli
