// SPDX-License-Identifier: BSD-3-Clause
#include "places.h"

#include "os/format.h"

#include <cstdlib>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// Beside the directory of this program, in that of libraries, whose name distributions choose.
OrSentence<fs::path> find_library_file(const char *package, const fs::path &relative) {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        return Sentence(os::format("cannot find the files beside this program: /proc/self/exe: {}", error.message()));
    const fs::path prefix = self.parent_path().parent_path();
    for (const char *libraries : {"lib", UCX_GAUDI_LIBDIR, "lib64", "lib/x86_64-linux-gnu"}) {
        fs::path found = (prefix / libraries / relative).lexically_normal();
        if (fs::exists(found, error))
            return found;
    }
    return Sentence(os::format("{} is missing; install {}, or keep bin and lib of a build together",
                               (prefix / "lib" / relative).string(), package));
}

} // namespace

OrSentence<fs::path> find_module_directory() { return find_library_file("ucx-gaudi-plugin", "ucx-gaudi"); }

OrSentence<fs::path> find_softgaudi_library() { return find_library_file("softgaudi", "softgaudi/libhl-thunk.so"); }

OrSentence<fs::path> find_softhca_library() { return find_library_file("softhca", "softhca/libsofthca.so"); }

fs::path fetched_ucx_directory() {
    const char *named = std::getenv("GAUDI_ENGINES");
    return named && *named ? named : UCX_GAUDI_ENGINES;
}

} // namespace gaudi::cli
