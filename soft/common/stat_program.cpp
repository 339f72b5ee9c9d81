// SPDX-License-Identifier: BSD-3-Clause
#include "common/stat_program.h"

#include "common/directory.h"
#include "os/format.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace soft {

std::optional<int> read_options(StatProgram &program, int argc, char **argv) {
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--help" || option == "-h")
            return print_report(program, gaudi::os::format("usage: {} [--json | --version | --help]\n{}\n"
                                                           "It looks at files that programs have created, and creates "
                                                           "none.\n",
                                                           program.name, program.about));
        if (option == "--version")
            return print_report(program, gaudi::os::format("{} {}\n", program.name, UCX_GAUDI_VERSION));
        if (option != "--json") {
            gaudi::os::print(stderr, "{}: unknown option '{}'; usage: {} [--json | --version | --help]\n", program.name,
                             option, program.name);
            return 2;
        }
        program.json = true;
    }
    return {};
}

int report_failure(const StatProgram &program, std::string_view sentence) {
    gaudi::os::print(stderr, "{}: {}\n", program.name, sentence);
    return 1;
}

int print_report(const StatProgram &program, const std::string &text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0)
        return 0;
    return report_failure(program, gaudi::os::format("cannot write to stdout: {}", std::strerror(errno)));
}

Expected<std::string> find_directory(const char *variable, std::string_view usual, std::string_view what) {
    const std::string dir = directory_name(variable, usual);
    const bool named = !env(variable).empty();
    struct stat info {};
    if (stat(dir.c_str(), &info) != 0)
        return Unexpected(
            named ? gaudi::os::format("{}={}: {}", variable, dir, std::strerror(errno))
                  : gaudi::os::format("{}: {}: no program of this user has used {} here; if one did elsewhere, set {}",
                                      dir, std::strerror(errno), what, variable));
    if (!S_ISDIR(info.st_mode))
        return Unexpected(named ? gaudi::os::format("{}={}: is not a directory", variable, dir)
                                : gaudi::os::format("{}: is not a directory", dir));
    return dir;
}

Expected<const void *> map_for_reading(const std::string &path, std::size_t size, std::uint32_t magic) {
    const auto failed = [&](std::string_view why) { return Unexpected(gaudi::os::format("{}: {}", path, why)); };
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); // a FIFO in its place must not block
    if (file < 0)
        return failed(std::strerror(errno));
    struct stat info {};
    std::uint32_t first = 0;
    const bool matches = fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                         static_cast<std::size_t>(info.st_size) == size &&
                         pread(file, &first, sizeof first, 0) == sizeof first && first == magic;
    const void *memory = matches ? mmap(nullptr, size, PROT_READ, MAP_SHARED, file, 0) : nullptr;
    const int error = errno;
    close(file);
    if (!matches)
        return failed("truncated, or not written by this version; remove the directory, or use the program of the "
                      "version that created it");
    if (memory == MAP_FAILED)
        return failed(std::strerror(error));
    return memory;
}

} // namespace soft
