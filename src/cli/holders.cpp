// SPDX-License-Identifier: BSD-3-Clause
#include "holders.h"

#include "os/format.h"
#include "os/printable.h"

#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

/// The compute node of a control node: /dev/accel/accel3 of /dev/accel/accel_controlD3, /dev/hl3 of /dev/hl_controlD3,
/// and an accel without a number of a control node without one.
fs::path compute_node(const fs::path &control) {
    constexpr std::string_view kMark = "_controlD";
    std::string name = control.filename().string();
    if (const std::size_t mark = name.find(kMark); mark != std::string::npos)
        name.erase(mark, kMark.size());
    else
        name = "accel";
    return control.parent_path() / name;
}

/// The process id that an entry of /proc is named after, if it is one.
std::optional<pid_t> parse_pid(const fs::path &entry) {
    const std::string name = entry.filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    return error == std::errc() && end == name.data() + name.size() ? std::optional(pid) : std::nullopt;
}

std::string read_first_line(const fs::path &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

bool has_lock(const fs::path &fdinfo) {
    std::ifstream file(fdinfo);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("lock:"))
            return true;
    }
    return false;
}

bool is_same_file(const struct stat &a, const struct stat &b) {
    if (S_ISCHR(a.st_mode) || S_ISCHR(b.st_mode)) // a device may have several nodes, one per container
        return S_ISCHR(a.st_mode) && S_ISCHR(b.st_mode) && a.st_rdev == b.st_rdev;
    return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool holds(const fs::path &process, const fs::path &node, const struct stat &wanted) {
    std::error_code error;
    for (fs::directory_iterator at(process / "fd", error), end; !error && at != end; at.increment(error)) {
        std::error_code closed;
        // The name is compared first: a stat of all open files could hang on a dead network file system.
        const fs::path target = fs::read_symlink(at->path(), closed);
        struct stat info {};
        if (closed || target.filename() != node.filename() || ::stat(at->path().c_str(), &info) != 0 ||
            !is_same_file(info, wanted))
            continue;
        // An open node of the driver is a card in use. A regular file in its place counts only with a lock on it.
        if (S_ISCHR(info.st_mode) || has_lock(process / "fdinfo" / at->path().filename()))
            return true;
    }
    return false;
}

} // namespace

std::vector<Holder> find_holders(const thunk::Device &control) {
    std::vector<Holder> found;
    std::error_code error;
    const fs::path node = compute_node(fs::read_symlink(os::format("/proc/self/fd/{}", control.fd()), error));
    struct stat wanted {};
    if (error || ::stat(node.c_str(), &wanted) != 0)
        return found;
    for (fs::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
        const auto pid = parse_pid(at->path());
        if (pid && holds(at->path(), node, wanted))
            found.push_back({*pid, os::printable(read_first_line(at->path() / "comm"))});
    }
    return found;
}

} // namespace gaudi::cli
