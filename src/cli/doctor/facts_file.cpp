// SPDX-License-Identifier: BSD-3-Clause
#include "facts_file.h"

#include "cli/read_file.h"
#include "os/format.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace gaudi::cli::doctor {
namespace {

struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

} // namespace

OrSentence<Facts> read_facts_file(const std::string &path) {
    const auto text = read_file(path);
    if (!text)
        return Sentence(text.error());
    return read_facts(*text, path);
}

OrSentence<void> write_facts_file(const Facts &facts, const std::string &path) {
    const std::string text = write_facts(facts);
    const File file(std::fopen(path.c_str(), "we"));
    if (!file || std::fwrite(text.data(), 1, text.size(), file.get()) != text.size() || std::fflush(file.get()) != 0)
        return Sentence(os::format("cannot write {}: {}", path, std::strerror(errno)));
    return {};
}

} // namespace gaudi::cli::doctor
