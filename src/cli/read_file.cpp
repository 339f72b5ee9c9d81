// SPDX-License-Identifier: BSD-3-Clause
#include "read_file.h"

#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace gaudi::cli {
namespace {

constexpr std::size_t kLongest = std::size_t{64} << 20; // far more than a dump or a report has

struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
};

} // namespace

OrSentence<std::string> read_file(const std::string &path) {
    const auto refuse = [&](int error) {
        return Sentence(os::format("cannot read {}: {}", path, std::strerror(error)));
    };
    const std::unique_ptr<std::FILE, Close> file(std::fopen(path.c_str(), "re"));
    if (!file)
        return refuse(errno);
    std::string text;
    char buffer[1 << 16];
    while (const std::size_t got = std::fread(buffer, 1, sizeof buffer, file.get())) {
        text.append(buffer, got);
        if (text.size() > kLongest)
            return refuse(EFBIG);
    }
    if (std::ferror(file.get()) != 0)
        return refuse(errno);
    return text;
}

} // namespace gaudi::cli
