// SPDX-License-Identifier: BSD-3-Clause
#include "side_memory.h"

#include "buffer/buffer.h"
#include "os/format.h"
#include "peer.h"

#include <dlfcn.h>
#include <exception>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gaudi::cli::explain {
namespace {

constexpr std::uint64_t kPiece = 16 << 20; // of a large memory, so that the pattern needs no second memory of its size
constexpr std::size_t kProblemBytes = 512;

/// The pattern at an offset: no two words of it are equal, so bytes in a wrong place are seen.
std::vector<char> pattern_at(std::uint64_t offset, std::uint64_t bytes) {
    std::vector<char> pattern(bytes);
    for (std::uint64_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
        const std::uint64_t word = (offset + i + 1) * 0x9E3779B97F4A7C15u;
        std::memcpy(pattern.data() + i, &word, std::min<std::uint64_t>(sizeof word, bytes - i));
    }
    return pattern;
}

} // namespace

Core::Core() : m_handle(::dlopen("libgaudi-core.so.1", RTLD_LAZY | RTLD_NOLOAD)) {
    if (!m_handle)
        throw SideFailure("UCX has not loaded libgaudi-core.so.1");
}

void *Core::look_up(const char *name) const {
    void *function = ::dlsym(m_handle, name);
    if (!function)
        throw SideFailure(
            os::format("the libgaudi-core.so.1 that UCX has loaded is of another version: it has no {}", name));
    return function;
}

void *Core::allocate(const std::string &card, std::uint64_t bytes) const {
    auto *call = reinterpret_cast<decltype(&gaudi_buffer_allocate)>(look_up("gaudi_buffer_allocate"));
    void *address = nullptr;
    char problem[kProblemBytes] = "";
    if (call(card.c_str(), bytes, &address, problem, sizeof problem) != 0)
        throw SideFailure(problem);
    return address;
}

void Core::free(void *address) const {
    auto *call = reinterpret_cast<decltype(&gaudi_buffer_free)>(look_up("gaudi_buffer_free"));
    call(address, nullptr, 0);
}

int Core::write(void *address, const void *host, std::uint64_t bytes, std::string &problem) const {
    auto *call = reinterpret_cast<decltype(&gaudi_buffer_write)>(look_up("gaudi_buffer_write"));
    char text[kProblemBytes] = "";
    const int code = call(address, host, bytes, text, sizeof text);
    problem = text;
    return code;
}

int Core::read(void *host, const void *address, std::uint64_t bytes, std::string &problem) const {
    auto *call = reinterpret_cast<decltype(&gaudi_buffer_read)>(look_up("gaudi_buffer_read"));
    char text[kProblemBytes] = "";
    const int code = call(host, address, bytes, text, sizeof text);
    problem = text;
    return code;
}

SideMemory::SideMemory(const Core *core, std::string card, std::uint64_t bytes)
    : m_core(core), m_card(std::move(card)), m_bytes(bytes) {
    if (is_on_card()) {
        m_address = static_cast<char *>(m_core->allocate(m_card, m_bytes));
        return;
    }
    try {
        m_host.resize(m_bytes);
    } catch (const std::bad_alloc &) {
        throw SideFailure(os::format("there are no {} bytes of host memory", m_bytes));
    }
    m_address = m_host.data();
}

SideMemory::~SideMemory() {
    try {
        if (is_on_card() && m_address)
            m_core->free(m_address);
    } catch (const std::exception &) { // a core without the function: the memory ends with the process
        m_address = nullptr;
    }
}

bool SideMemory::write(const std::vector<char> &bytes, std::uint64_t offset, std::string &why) {
    if (!is_on_card()) {
        std::copy(bytes.begin(), bytes.end(), m_address + offset);
        return true;
    }
    const int code = m_core->write(m_address + offset, bytes.data(), bytes.size(), why);
    if (code != 0 && code != ENOTSUP)
        throw SideFailure(why);
    return code == 0;
}

bool SideMemory::fill_with_pattern(std::string &why) {
    for (std::uint64_t offset = 0; offset < m_bytes; offset += kPiece)
        if (!write(pattern_at(offset, std::min(kPiece, m_bytes - offset)), offset, why))
            return false;
    return true;
}

bool SideMemory::fill_with_zeros(std::string &why) {
    const std::vector<char> zeros(std::min(kPiece, m_bytes));
    for (std::uint64_t offset = 0; offset < m_bytes; offset += kPiece)
        if (!write({zeros.begin(), zeros.begin() + static_cast<std::ptrdiff_t>(std::min(kPiece, m_bytes - offset))},
                   offset, why))
            return false;
    return true;
}

bool SideMemory::has_pattern(bool &intact, std::string &why) const {
    std::vector<char> piece(std::min(kPiece, m_bytes));
    intact = true;
    for (std::uint64_t offset = 0; offset < m_bytes && intact; offset += kPiece) {
        const std::uint64_t bytes = std::min(kPiece, m_bytes - offset);
        if (!is_on_card()) {
            std::copy_n(m_address + offset, bytes, piece.begin());
        } else if (const int code = m_core->read(piece.data(), m_address + offset, bytes, why); code != 0) {
            if (code != ENOTSUP)
                throw SideFailure(why);
            return false;
        }
        const std::vector<char> expected = pattern_at(offset, bytes);
        intact = std::equal(expected.begin(), expected.end(), piece.begin());
    }
    return true;
}

} // namespace gaudi::cli::explain
