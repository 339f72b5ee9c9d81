// SPDX-License-Identifier: BSD-3-Clause
// The memory of one end of the transfer, in host memory or on a card, and the pattern that is sent.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gaudi::cli::explain {

/// The buffers of the libgaudi-core that UCX has loaded into this process.
class Core {
public:
    /// Fails if there is none.
    Core();

    void *allocate(const std::string &card, std::uint64_t bytes) const;
    void free(void *address) const;
    /// Both return 0 or an errno, and say why in `problem`.
    int write(void *address, const void *host, std::uint64_t bytes, std::string &problem) const;
    int read(void *host, const void *address, std::uint64_t bytes, std::string &problem) const;

private:
    void *look_up(const char *name) const;

    void *m_handle;
};

class SideMemory {
public:
    /// `card` is a bus id; empty for host memory, for which `core` may be null.
    SideMemory(const Core *core, std::string card, std::uint64_t bytes);
    ~SideMemory();
    SideMemory(const SideMemory &) = delete;
    SideMemory &operator=(const SideMemory &) = delete;

    char *address() const { return m_address; }
    bool is_on_card() const { return !m_card.empty(); }

    /// Each returns false if the card takes no copies, and says so in `why`.
    bool fill_with_pattern(std::string &why);
    bool fill_with_zeros(std::string &why);
    bool has_pattern(bool &intact, std::string &why) const;

private:
    bool write(const std::vector<char> &bytes, std::uint64_t offset, std::string &why);

    const Core *const m_core;
    const std::string m_card;
    const std::uint64_t m_bytes;
    std::vector<char> m_host; // the memory itself if it is on no card
    char *m_address = nullptr;
};

} // namespace gaudi::cli::explain
