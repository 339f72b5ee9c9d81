// SPDX-License-Identifier: BSD-3-Clause
#include "topology.h"

#include "os/format.h"
#include "own_mounts.h"
#include "pci_server.h"

#include <sys/mount.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

namespace gaudi::cli {
namespace {

namespace fs = std::filesystem;

// UCX reads sockets and root complexes from paths below /sys/devices, so the links must lead there.
const fs::path kDevices = "/sys/devices";
const fs::path kLinks = "/sys/bus/pci/devices";

void mount_or_throw(const char *type, const fs::path &from, const fs::path &to, unsigned long flags, const char *data) {
    if (::mount(from.c_str(), to.c_str(), type, flags, data) != 0)
        throw fs::filesystem_error("mount", from, to, std::error_code(errno, std::generic_category()));
}

void bind(const fs::path &from, const fs::path &to) {
    mount_or_throw(nullptr, from, to, MS_BIND | MS_REC, nullptr); // recursive: an unprivileged bind mount must be
}

/// Adds to `ours` what only `machine` has, at any depth.
void add_rest(const fs::path &machine, const fs::path &ours) {
    for (const auto &entry : fs::directory_iterator(machine)) {
        const fs::path place = ours / entry.path().filename();
        const bool taken = fs::exists(fs::symlink_status(place));
        if (entry.is_symlink()) {
            if (!taken)
                fs::copy_symlink(entry.path(), place); // a relative link is valid in the new place as well
        } else if (entry.is_directory()) {
            if (taken) {
                add_rest(entry.path(), place);
            } else {
                fs::create_directory(place);
                bind(entry.path(), place);
            }
        } else if (!taken) {
            std::ofstream(place).flush();
            bind(entry.path(), place);
        }
    }
}

void mount_server(const fs::path &room, const std::vector<PciFunction> &functions) {
    fs::create_directory(room / "links");
    for (const PciFunction &one : functions)
        fs::create_symlink("../../../devices" / one.place, room / "links" / one.address);
    add_rest(kLinks, room / "links");
    add_rest(kDevices, room / "devices");
    bind(room / "links", kLinks);
    bind(room / "devices", kDevices);
    ::umount2(room.c_str(), MNT_DETACH); // the bind mounts stay; the tree itself is not needed any more
}

} // namespace

OrSentence<void> show_topology(const fs::path &room, bool gaudi3, unsigned hcas) {
    std::error_code error;
    if (!fs::is_directory(kLinks, error))
        return Sentence(os::format("--topology: there is no {} on this machine", kLinks.string()));
    if (const auto entered = enter_own_mounts(); !entered)
        return Sentence(os::format("--topology: {}", entered.error()));
    try {
        mount_or_throw("tmpfs", "pci", room, MS_NOSUID | MS_NODEV | MS_NOEXEC, "size=16m,mode=755");
        const auto functions = write_pci_server(room / "devices", gaudi3, hcas);
        if (!functions)
            return Sentence(os::format("--topology: {}", functions.error()));
        mount_server(room, *functions);
    } catch (const fs::filesystem_error &failed) {
        return Sentence(os::format("--topology: {}", failed.what()));
    }
    return {};
}

} // namespace gaudi::cli
