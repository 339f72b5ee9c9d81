// SPDX-License-Identifier: BSD-3-Clause
#include "adoption.h"

#include "thunk/device.h"

#include <dirent.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <memory>

namespace gaudi {

Result<bool> is_compute_node(const CardIdentity &card, int fd) {
    if (auto proven = card.node().accepts(fd, card.bus_id()); !proven || !*proven)
        return proven;
    const thunk::Device device(card.library(), fd);
    // The library looks at the descriptor's node for this and makes no call on it.
    const auto name = device.bus_id();
    if (!name && thunk::is_transient(name.error().code))
        return tl::unexpected(name.error());
    if (!name || *name != card.bus_id())
        return false;
    // Only the compute node knows this call. Submission 0 comes before the first one, and so has ended; a card in reset
    // gives another error.
    const auto waited = device.wait(0, std::chrono::microseconds(0));
    return waited || (waited.error().code != ENOTTY && waited.error().code != EBADF);
}

std::optional<int> find_descriptor(const CardIdentity &card, const std::vector<int> &except) {
    const std::unique_ptr<DIR, int (*)(DIR *)> open(opendir("/proc/self/fd"), closedir);
    if (!open)
        return {};
    int lowest = -1;
    while (const dirent *entry = readdir(open.get())) {
        int fd = -1;
        const char *end = entry->d_name + std::strlen(entry->d_name);
        if (std::from_chars(entry->d_name, end, fd).ec != std::errc() || fd == dirfd(open.get()))
            continue;
        if (std::find(except.begin(), except.end(), fd) != except.end() || (lowest >= 0 && fd > lowest))
            continue;
        const auto matches = is_compute_node(card, fd);
        if (!matches)
            return {};
        if (*matches)
            lowest = fd;
    }
    return lowest;
}

} // namespace gaudi
