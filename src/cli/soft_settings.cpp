// SPDX-License-Identifier: BSD-3-Clause
#include "soft_settings.h"

#include "child_answer.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

namespace gaudi::cli {

std::string find_wrong_setting(const std::filesystem::path &library, const char *function) {
    ChildAnswer child([&](int out) {
        using Check = int(char *sentence, std::size_t size);
        void *loaded = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        auto *check = loaded ? reinterpret_cast<Check *>(::dlsym(loaded, function)) : nullptr;
        char sentence[4096] = {};
        if (!check)
            ::strncpy(sentence, ::dlerror(), sizeof sentence - 1);
        else
            check(sentence, sizeof sentence);
        [[maybe_unused]] const ssize_t sent = ::write(out, sentence, std::strlen(sentence));
    });
    return child.read();
}

} // namespace gaudi::cli
