// SPDX-License-Identifier: BSD-3-Clause
#include "node_proof.h"

#include "os/format.h"
#include "thunk/fd.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace gaudi {
namespace {

/// The target of a symbolic link; empty where there is none.
std::string read_link(const std::string &path) {
    std::array<char, PATH_MAX> target;
    const ssize_t length = readlink(path.c_str(), target.data(), target.size());
    return length <= 0 ? std::string() : std::string(target.data(), static_cast<std::size_t>(length));
}

/// The file behind a descriptor, by name: another thread may close the descriptor meanwhile, and its number may become that of
/// another file, so nothing is called on it.
std::string link_of(int fd) { return os::format("/proc/self/fd/{}", fd); }

/// The directory of the file behind a descriptor; empty for a file without one, such as a pipe.
std::string directory_of(int fd) {
    const std::string path = read_link(link_of(fd));
    return path.starts_with('/') ? path.substr(0, path.rfind('/') + 1) : std::string();
}

/// The first line of a small file; empty where there is none.
Result<std::string> read_line(const std::string &path) {
    const thunk::Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 64> text;
    const ssize_t length = file ? ::read(file.get(), text.data(), text.size()) : -1;
    if (length < 0 && thunk::is_transient(errno))
        return tl::unexpected(thunk::from_minus_one(errno, "open", path));
    const std::string_view all(text.data(), length < 0 ? 0 : static_cast<std::size_t>(length));
    return std::string(all.substr(0, all.find('\n')));
}

} // namespace

Result<bool> sysfs_names_card(dev_t device, const std::string &bus_id, const std::string &entries) {
    const std::string entry = os::format("{}/{}:{}", entries, major(device), minor(device));
    const std::string parent = read_link(entry + "/device");
    if (!parent.empty() && parent.substr(parent.rfind('/') + 1) == bus_id)
        return true;
    for (const char *attribute : {"/device/pci_addr", "/pci_addr"}) { // drivers differ in which of the two has it
        const auto address = read_line(entry + attribute);
        if (!address)
            return tl::unexpected(address.error());
        if (*address == bus_id)
            return true;
    }
    return false;
}

NodeProof::NodeProof(int control_fd) {
    struct stat status {};
    if (stat(link_of(control_fd).c_str(), &status) != 0)
        return;
    m_type = status.st_mode & S_IFMT;
    m_control = S_ISCHR(m_type) ? status.st_rdev : 0;
    m_directory = directory_of(control_fd);
}

Result<bool> NodeProof::accepts(int fd, const std::string &bus_id) const {
    struct stat status {};
    if (m_type == 0 || stat(link_of(fd).c_str(), &status) != 0 || (status.st_mode & S_IFMT) != m_type)
        return false;
    if (S_ISCHR(m_type))
        return sysfs_names_card(status.st_rdev, bus_id);
    return !m_directory.empty() && directory_of(fd) == m_directory;
}

} // namespace gaudi
