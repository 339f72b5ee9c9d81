// SPDX-License-Identifier: BSD-3-Clause
// A file ucx.conf, in which UCX finds settings that are not in the environment.
#pragma once

#include "sentence.h"

#include <filesystem>
#include <string>
#include <vector>

namespace gaudi::cli {

/// The file of every UCX that was configured for /etc, as NIXL's and those of distributions are.
std::filesystem::path system_conf();
/// The file of every UCX that this user runs; empty if HOME is not set.
std::filesystem::path user_conf();
/// The file of the UCX whose libraries are in this directory.
std::filesystem::path conf_beside(const std::filesystem::path &libraries);

/// One file with our setting of UCX_PLUGIN_PATH in it, or without. Our setting is two lines, a comment that marks it and
/// the setting itself: to UCX, a comment behind a value would be a part of the value.
class UcxConf {
public:
    /// A file that does not exist is an empty one.
    static OrSentence<UcxConf> read(const std::filesystem::path &file);

    /// The value in our setting; empty if there is none.
    const std::string &own_value() const { return m_own; }
    /// The value of the last UCX_PLUGIN_PATH that is not ours; empty if there is none.
    std::string foreign_value() const;

    /// The value that UCX reads from this file.
    std::string value() const { return foreign_value().empty() ? m_own : foreign_value(); }

    void set(const std::string &value) { m_own = value; }

    /// Replaces the file in one step and keeps its owner and permissions. A file that we created and that has nothing
    /// left in it is removed.
    OrSentence<void> write() const;

private:
    explicit UcxConf(std::filesystem::path file) : m_file(std::move(file)) {}
    std::string text() const;
    OrSentence<void> replace(const std::string &text) const;

    std::filesystem::path m_file;
    std::vector<std::string> m_others; // the lines that are not ours
    std::string m_own;
    bool m_created = true; // by us
};

} // namespace gaudi::cli
