// SPDX-License-Identifier: BSD-3-Clause
#include "places.h"

#include "os/format.h"

#include <cstdlib>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The directory of this program.
OrSentence<fs::path> find_own_directory() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error)
        return Sentence(os::format("cannot find the files beside this program: /proc/self/exe: {}", error.message()));
    return self.parent_path();
}

/// Beside the directory of this program, in that of libraries, whose name distributions choose.
OrSentence<fs::path> find_library_file(const char *package, const fs::path &relative) {
    const auto programs = find_own_directory();
    if (!programs)
        return Sentence(programs.error());
    const fs::path prefix = programs->parent_path();
    std::error_code error;
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

OrSentence<fs::path> find_recorder_library() {
    return find_library_file("ucx-gaudi-tools", "ucx-gaudi-record/libhl-thunk.so");
}

OrSentence<fs::path> find_softhca_library() { return find_library_file("softhca", "softhca/libsofthca.so"); }

OrSentence<fs::path> find_program(const std::string &name) {
    const auto programs = find_own_directory();
    if (!programs)
        return Sentence(programs.error());
    const fs::path hidden = programs->parent_path() / "libexec" / "ucx-gaudi" / name;
    std::error_code error;
    for (const fs::path &path : {*programs / name, hidden})
        if (fs::exists(path, error))
            return path;
    return Sentence(
        os::format("the program {} is neither in {} nor in {}; install ucx-gaudi-tools, softgaudi and softhca "
                   "again, or build with the headers of a UCX",
                   name, programs->string(), hidden.parent_path().string()));
}

fs::path fetched_ucx_directory() {
    const char *named = std::getenv("GAUDI_ENGINES");
    return named && *named ? named : UCX_GAUDI_ENGINES;
}

} // namespace gaudi::cli
