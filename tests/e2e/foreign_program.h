// SPDX-License-Identifier: BSD-3-Clause
// A program that uses a card as a framework does: by calls of libhl-thunk and its own command submissions.
#pragma once

#include "soft/soft.h"
#include "ucp_side.h"

#include <dlfcn.h>
#include <fcntl.h>

namespace e2e {

class Program {
public:
    /// linked: by symbol, where hooks see the call; looked_up: by dlsym, where no hook does.
    enum class Calls { linked, looked_up };

    explicit Program(Calls calls) : m_linked(calls == Calls::linked) {
        m_fd = m_linked ? hlthunk_open(HLTHUNK_DEVICE_DONT_CARE, nullptr)
                        : look_up(&hlthunk_open, "hlthunk_open")(HLTHUNK_DEVICE_DONT_CARE, nullptr);
        if (m_fd < 0)
            throw Failure("hlthunk_open failed");
        for (char *area : {m_bounce.data(), m_commands.data()})
            (area == m_bounce.data() ? m_bounce_at : m_commands_at) = hlthunk_host_memory_map(m_fd, area, 0, kArea);
    }
    ~Program() { close(); }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    struct Memory {
        std::uint64_t handle = 0, address = 0;
        std::size_t size = 0;

        char *data(std::size_t offset = 0) const { return reinterpret_cast<char *>(address + offset); }
    };
    Memory allocate(std::size_t size) const {
        Memory memory;
        memory.size = size;
        if (m_linked) {
            memory.handle = hlthunk_device_memory_alloc(m_fd, size, 0, false, false);
            memory.address = hlthunk_device_memory_map(m_fd, memory.handle, 0);
        } else {
            memory.handle =
                look_up(&hlthunk_device_memory_alloc, "hlthunk_device_memory_alloc")(m_fd, size, 0, false, false);
            memory.address = look_up(&hlthunk_device_memory_map, "hlthunk_device_memory_map")(m_fd, memory.handle, 0);
        }
        if (memory.handle == 0 || memory.address == 0)
            throw Failure("the card has no memory");
        return memory;
    }
    /// False if the driver refuses to unmap because an HCA has the memory registered.
    bool free(const Memory &memory) const {
        const int unmapped = m_linked ? hlthunk_memory_unmap(m_fd, memory.address)
                                      : look_up(&hlthunk_memory_unmap, "hlthunk_memory_unmap")(m_fd, memory.address);
        if (unmapped != 0)
            return false;
        const int freed = m_linked
                              ? hlthunk_device_memory_free(m_fd, memory.handle)
                              : look_up(&hlthunk_device_memory_free, "hlthunk_device_memory_free")(m_fd, memory.handle);
        if (freed != 0)
            throw Failure("hlthunk_device_memory_free failed after unmap");
        return true;
    }
    void close() {
        if (m_fd < 0)
            return;
        if (m_linked)
            hlthunk_close(m_fd);
        else
            look_up(&hlthunk_close, "hlthunk_close")(m_fd);
        m_fd = -1;
    }

    void write(const Memory &memory, const std::vector<char> &bytes, std::size_t offset = 0) {
        for (std::size_t done = 0; done < bytes.size(); done += kArea) {
            const std::size_t piece = std::min(kArea, bytes.size() - done);
            std::memcpy(m_bounce.data(), bytes.data() + done, piece);
            copy(soft::kDown, m_bounce_at, memory.address + offset + done, piece);
        }
    }
    std::vector<char> read(const Memory &memory, std::size_t length, std::size_t offset = 0) {
        std::vector<char> bytes(length);
        for (std::size_t done = 0; done < length; done += kArea) {
            const std::size_t piece = std::min(kArea, length - done);
            copy(soft::kUp, memory.address + offset + done, m_bounce_at, piece);
            std::memcpy(bytes.data() + done, m_bounce.data(), piece);
        }
        return bytes;
    }
    int fd() const { return m_fd; }
    /// Whether a mapping starts at `address`: the driver exports no other address.
    bool is_mapped(std::uint64_t address) const {
        const int exported = hlthunk_device_mapped_memory_export_dmabuf_fd(m_fd, address, 4096, 0, O_RDWR | O_CLOEXEC);
        return exported >= 0 && ::close(exported) == 0;
    }

private:
    static constexpr std::size_t kArea = 1 << 20;

    template <class Function>
    static Function *look_up(Function *, const char *name) {
        void *library = dlopen(std::getenv("GAUDI_THUNK"), RTLD_NOW);
        return reinterpret_cast<Function *>(dlsym(library, name));
    }

    void copy(std::uint32_t queue, std::uint64_t from, std::uint64_t to, std::size_t length) {
        hlthunk_cs_flush_pci_hbw_writes(m_fd); // makes RDMA writes visible to the card's engines
        soft::Packets packets;
        packets.copy(from, to, static_cast<std::uint32_t>(length));
        std::memcpy(m_commands.data(), packets.data(), packets.size());
        hl_cs_chunk chunk{};
        chunk.queue_index = queue;
        chunk.cb_handle = m_commands_at;
        chunk.cb_size = packets.size();
        chunk.cs_chunk_flags = HL_CS_CHUNK_FLAGS_USER_ALLOC_CB;
        hlthunk_cs_in in{};
        in.chunks_execute = &chunk;
        in.num_chunks_execute = 1;
        hlthunk_cs_out out{};
        std::uint32_t status = 0;
        if (hlthunk_command_submission(m_fd, &in, &out) != 0 ||
            hlthunk_wait_for_cs(m_fd, out.seq, soft::kForever, &status) != 0)
            throw Failure("a copy of the program failed");
    }

    const bool m_linked;
    int m_fd = -1;
    std::vector<char> m_bounce = std::vector<char>(kArea), m_commands = std::vector<char>(kArea);
    std::uint64_t m_bounce_at = 0, m_commands_at = 0;
};

} // namespace e2e
