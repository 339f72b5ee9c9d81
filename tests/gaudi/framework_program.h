// SPDX-License-Identifier: BSD-3-Clause
// A framework in this process that uses a card by libhl-thunk's calls, past the memory hooks.
#pragma once

#include "engine_user.h"

#include <dlfcn.h>

#include <utility>

namespace gaudi::test {

class FrameworkProgram {
public:
    explicit FrameworkProgram(const std::string &bus_id) : m_fd(call().open(HLTHUNK_DEVICE_DONT_CARE, bus_id.c_str())) {
        if (m_fd < 0)
            throw std::runtime_error("the card does not open: " + std::string(strerror(-m_fd)));
    }
    ~FrameworkProgram() { close(); }
    FrameworkProgram(const FrameworkProgram &) = delete;
    FrameworkProgram &operator=(const FrameworkProgram &) = delete;

    struct Memory {
        std::uint64_t handle = 0, address = 0;
    };
    Memory allocate(std::uint64_t size, std::uint64_t hint = 0) const {
        Memory memory;
        memory.handle = call().device_memory_alloc(m_fd, size, 0, false, false);
        memory.address = call().device_memory_map(m_fd, memory.handle, hint);
        if (memory.handle == 0 || memory.address == 0)
            throw std::runtime_error("no memory on the card");
        return memory;
    }
    bool unmap(const Memory &memory) const { return call().memory_unmap(m_fd, memory.address) == 0; }
    bool free(const Memory &memory) const {
        return unmap(memory) && call().device_memory_free(m_fd, memory.handle) == 0;
    }
    void close() {
        if (m_fd >= 0)
            call().close(std::exchange(m_fd, -1));
    }
    /// Closes as the memory hooks see it; `card` is the one that was opened.
    void close_hooked(Card &card) {
        const int fd = m_fd;
        card.before_close(fd);
        close();
        card.after_close(fd);
    }
    int fd() const { return m_fd; }

    static const thunk::Functions &call() { return value(thunk::Library::load(SOFTGAUDI_LIBRARY))->call(); }

private:
    int m_fd;
};

} // namespace gaudi::test
