// SPDX-License-Identifier: BSD-3-Clause
#include "places.h"

#include <fmt/format.h>

#include <cstdlib>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

OrSentence<fs::path> find_beside_program(const char *relative) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        return Sentence(fmt::format("cannot find the files beside this program: /proc/self/exe: {}", error.message()));
    fs::path found = (self.parent_path() / ".." / relative).lexically_normal();
    if (!fs::exists(found, error))
        return Sentence(fmt::format("{} is missing; build or install ucx-gaudi again, and keep bin and lib together",
                                    found.string()));
    return found;
}

} // namespace

OrSentence<fs::path> find_module_directory() { return find_beside_program("lib/ucx-gaudi"); }

OrSentence<fs::path> find_softgaudi_library() { return find_beside_program("lib/softgaudi/libhl-thunk.so"); }

OrSentence<fs::path> find_softhca_library() { return find_beside_program("lib/softhca/libsofthca.so"); }

fs::path fetched_ucx_directory() {
    const char *named = std::getenv("GAUDI_ENGINES");
    return named && *named ? named : UCX_GAUDI_ENGINES;
}

} // namespace gaudi::cli
