// SPDX-License-Identifier: BSD-3-Clause
#include "ucx_conf.h"

#include "os/format.h"
#include "thunk/fd.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSetting = "UCX_PLUGIN_PATH";
constexpr std::string_view kCreated = "# This file is of 'ucx_gaudi enable'; 'ucx_gaudi disable' removes it.";
constexpr std::string_view kAdded = "# The next line is of 'ucx_gaudi enable'; 'ucx_gaudi disable' removes it.";

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r";
    const std::size_t begin = std::min(text.find_first_not_of(kBlank), text.size());
    text.remove_prefix(begin);
    return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

/// The value if the line sets UCX_PLUGIN_PATH, else nothing.
std::string_view plugin_path_in(std::string_view line) {
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos || trim(line.substr(0, equals)) != kSetting)
        return {};
    return trim(line.substr(equals + 1));
}

std::string failure(const fs::path &file) {
    return os::format("cannot write {}: {}", file.string(), std::strerror(errno));
}

bool write_all(int fd, std::string_view text) {
    while (!text.empty()) {
        const ssize_t written = ::write(fd, text.data(), text.size());
        if (written < 0 && errno != EINTR)
            return false;
        text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
    return ::fsync(fd) == 0;
}

} // namespace

fs::path system_conf() { return "/etc/ucx/ucx.conf"; }

fs::path user_conf() {
    const char *home = std::getenv("HOME");
    return home && *home ? fs::path(home) / "ucx.conf" : fs::path();
}

fs::path conf_beside(const fs::path &libraries) {
    return (libraries / ".." / "etc" / "ucx" / "ucx.conf").lexically_normal();
}

OrSentence<UcxConf> UcxConf::read(const fs::path &file) {
    UcxConf conf(file);
    std::error_code error;
    const fs::file_status status = fs::symlink_status(file, error);
    if (!fs::exists(status))
        return conf;
    if (!fs::is_regular_file(status))
        return Sentence(os::format("{} is not a regular file; change what it leads to by hand", file.string()));
    conf.m_created = false;
    std::ifstream in(file);
    if (!in)
        return Sentence(os::format("cannot read {}: {}", file.string(), std::strerror(errno)));
    bool own = false; // the line before was our comment
    for (std::string line; std::getline(in, line);) {
        if (own && !plugin_path_in(line).empty()) {
            conf.m_own = plugin_path_in(line);
            own = false;
        } else if (own = line == kCreated || line == kAdded; own) {
            conf.m_created = line == kCreated;
        } else {
            conf.m_others.push_back(line);
        }
    }
    return conf;
}

std::string UcxConf::foreign_value() const {
    std::string value;
    for (const std::string &line : m_others) {
        if (const std::string_view found = plugin_path_in(line); !found.empty())
            value = found;
    }
    return value;
}

std::string UcxConf::text() const {
    std::string text;
    if (!m_own.empty()) // in front, because settings behind a [section] may apply to some machines only
        text = os::format("{}\n{}={}\n", m_created ? kCreated : kAdded, kSetting, m_own);
    for (const std::string &line : m_others)
        fmt::format_to(std::back_inserter(text), "{}\n", line);
    return text;
}

OrSentence<void> UcxConf::write() const {
    const std::string all = text();
    if (!all.empty() || !m_created)
        return replace(all);
    if (::unlink(m_file.c_str()) != 0 && errno != ENOENT)
        return Sentence(failure(m_file));
    return {};
}

OrSentence<void> UcxConf::replace(const std::string &text) const {
    struct stat old {};
    const bool exists = ::lstat(m_file.c_str(), &old) == 0;
    std::string name = m_file.string() + ".XXXXXX";
    const thunk::Fd fd(::mkostemp(name.data(), O_CLOEXEC));
    if (fd.get() < 0)
        return Sentence(failure(m_file));
    const bool kept = !exists || ::fchown(fd.get(), old.st_uid, old.st_gid) == 0;
    if (!kept || ::fchmod(fd.get(), exists ? old.st_mode & 07777 : 0644) != 0 || !write_all(fd.get(), text) ||
        ::rename(name.c_str(), m_file.c_str()) != 0) {
        std::string why = failure(m_file);
        ::unlink(name.c_str());
        return Sentence(std::move(why));
    }
    return {};
}

} // namespace gaudi::cli
