// SPDX-License-Identifier: BSD-3-Clause
#include "machine.h"

#include "thunk/fd.h"

#include <fcntl.h>
#include <gnu/libc-version.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <sstream>
#include <string_view>

namespace gaudi::cli::doctor {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFile = std::size_t{16} << 20; // /proc/kallsyms is the longest that is read
constexpr unsigned kIpcLock = 14;                           // the number of CAP_IPC_LOCK

std::optional<std::uint64_t> limit_of(__rlimit_resource resource) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return {};
    return limit.rlim_cur;
}

bool has_capability(const Machine &machine, unsigned number) {
    const std::string status = machine.read("/proc/self/status").value_or("");
    constexpr std::string_view kKey = "CapEff:\t";
    const std::size_t at = status.find(kKey);
    if (at == std::string::npos)
        return false;
    std::uint64_t set = 0;
    std::from_chars(status.data() + at + kKey.size(), status.data() + status.size(), set, 16);
    return (set >> number & 1) != 0;
}

/// In another one a capability is no capability on the machine, although the kernel shows it.
bool is_initial_user_namespace(const Machine &machine) {
    std::istringstream words(machine.read("/proc/self/uid_map").value_or(""));
    std::uint64_t inside = 1, outside = 1, count = 0;
    constexpr std::uint64_t kAll = 4294967295;
    return words >> inside >> outside >> count && inside == 0 && outside == 0 && count == kAll;
}

} // namespace

Machine Machine::here() {
    Machine machine;
    for (const char *const *entry = environ; entry && *entry; ++entry)
        if (const char *equals = std::strchr(*entry, '='))
            machine.environment.emplace(std::string(*entry, equals), equals + 1);
    std::error_code error;
    machine.working_directory = fs::current_path(error);
    utsname name{};
    ::uname(&name);
    machine.kernel_release = name.release;
    machine.glibc = ::gnu_get_libc_version();
    machine.user = ::geteuid();
    machine.may_lock_memory = has_capability(machine, kIpcLock) && is_initial_user_namespace(machine);
    machine.locked_memory_limit = limit_of(RLIMIT_MEMLOCK);
    machine.open_files_limit = limit_of(RLIMIT_NOFILE);
    return machine;
}

bool Machine::exists(const fs::path &path) const {
    std::error_code error;
    return fs::exists(fs::symlink_status(at(path), error));
}

std::optional<std::string> Machine::read(const fs::path &path, int *error) const {
    const auto failed = [&] {
        if (error)
            *error = errno;
        return std::nullopt;
    };
    const thunk::Fd file(::open(at(path).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0)
        return failed();
    std::string text;
    char buffer[1 << 16];
    while (text.size() < kLongestFile) {
        const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return failed();
        if (got == 0)
            break;
        text.append(buffer, static_cast<std::size_t>(got));
    }
    return text;
}

std::string Machine::read_line(const fs::path &path) const {
    std::string line = read(path).value_or(std::string());
    line.erase(std::min(line.find('\n'), line.size()));
    return line;
}

std::optional<std::int64_t> Machine::read_number(const fs::path &path) const {
    const std::string line = read_line(path);
    std::int64_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    return error == std::errc() && end == line.data() + line.size() ? std::optional(number) : std::nullopt;
}

std::vector<std::string> Machine::list(const fs::path &path) const {
    std::vector<std::string> names;
    std::error_code error;
    for (fs::directory_iterator entry(at(path), error), end; !error && entry != end; entry.increment(error))
        names.push_back(entry->path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

fs::path Machine::read_link(const fs::path &path) const {
    std::error_code error;
    return fs::read_symlink(at(path), error);
}

std::optional<std::string> Machine::variable(const std::string &name) const {
    const auto found = environment.find(name);
    return found == environment.end() || found->second.empty() ? std::nullopt : std::optional(found->second);
}

} // namespace gaudi::cli::doctor
