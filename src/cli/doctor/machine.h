// SPDX-License-Identifier: BSD-3-Clause
// What the collectors of `ucx_gaudi doctor` read: files below a root, the environment, the kernel's name and limits. A test
// gives them a tree of files in the place of the machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace gaudi::cli::doctor {

class Machine {
public:
    /// The machine that this process runs on.
    static Machine here();

    std::filesystem::path root = "/";
    std::map<std::string, std::string> environment;
    std::filesystem::path working_directory;
    std::string kernel_release;
    std::string glibc; // its version
    unsigned user = 0;
    bool may_lock_memory = false; // CAP_IPC_LOCK on the machine: limits of locked memory do not count
    std::optional<std::uint64_t> locked_memory_limit, open_files_limit; // none: unlimited

    /// The place of an absolute path below the root.
    std::filesystem::path at(const std::filesystem::path &path) const { return root / path.relative_path(); }

    bool exists(const std::filesystem::path &path) const;
    /// Nothing if it cannot be read; `error` then has the errno.
    std::optional<std::string> read(const std::filesystem::path &path, int *error = nullptr) const;
    /// The first line, without its end; empty if there is none.
    std::string read_line(const std::filesystem::path &path) const;
    std::optional<std::int64_t> read_number(const std::filesystem::path &path) const;
    /// Names in a directory, sorted.
    std::vector<std::string> list(const std::filesystem::path &path) const;
    /// Where a symbolic link leads, as it is written; empty if it is none.
    std::filesystem::path read_link(const std::filesystem::path &path) const;
    /// Nothing if it is not set or empty.
    std::optional<std::string> variable(const std::string &name) const;
};

} // namespace gaudi::cli::doctor
