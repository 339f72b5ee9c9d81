// SPDX-License-Identifier: BSD-3-Clause
// The variables that a run sets, kept in order so that they can be printed.
#pragma once

#include "os/format.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace gaudi::cli {

class Environment {
public:
    void set(const char *name, const std::string &value) {
        ::setenv(name, value.c_str(), 1);
        m_names.emplace_back(name);
    }
    void set_if_given(const char *name, const std::string &value) {
        if (!value.empty())
            set(name, value);
    }
    /// Sets a variable unless the user has set it.
    void set_default(const char *name, const std::string &value) {
        if (!std::getenv(name))
            set(name, value);
    }
    /// Puts `value` in front of a list of paths.
    void prepend(const char *name, const std::string &value) {
        const char *old = std::getenv(name);
        set(name, old && *old ? os::format("{}:{}", value, old) : value);
    }
    void append(const char *name, const std::string &value) {
        const char *old = std::getenv(name);
        set(name, old && *old ? os::format("{}:{}", old, value) : value);
    }
    void print() const {
        for (const std::string &name : m_names)
            os::print(stderr, "{}={}\n", name, std::getenv(name.c_str()));
    }

private:
    std::vector<std::string> m_names;
};

} // namespace gaudi::cli
