// SPDX-License-Identifier: BSD-3-Clause
#include "nodes.h"

#include <sys/stat.h>

#include <atomic>
#include <cstddef>

namespace gaudi::record {
namespace {

constexpr int kRemembered = 4096;
std::atomic<std::uint64_t> s_nodes[kRemembered];

std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15;
    return hash ^ hash >> 29;
}

std::uint64_t look_up(int fd) noexcept {
    struct stat status {};
    if (::fstat(fd, &status) != 0)
        return 0;
    return mix(mix(mix(1, status.st_dev), status.st_ino), status.st_rdev) | 1;
}

} // namespace

std::uint64_t node_of(int fd, bool often) noexcept {
    if (fd < 0)
        return 0;
    if (fd >= kRemembered)
        return look_up(fd);
    std::atomic<std::uint64_t> &known = s_nodes[fd];
    if (const std::uint64_t node = known.load(std::memory_order_relaxed); often && node != 0)
        return node;
    const std::uint64_t node = look_up(fd);
    known.store(node, std::memory_order_relaxed);
    return node;
}

void forget_node(int fd) noexcept {
    if (fd >= 0 && fd < kRemembered)
        s_nodes[fd].store(0, std::memory_order_relaxed);
}

} // namespace gaudi::record
