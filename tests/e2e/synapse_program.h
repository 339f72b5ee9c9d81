// SPDX-License-Identifier: BSD-3-Clause
// A program that uses SynapseAI, which is a stand-in here, as PyTorch would.
#pragma once

#include "conversation.h"
#include "framework/standin/synapse.h"
#include "gaudi/framework/synapse_stream.h"

#include <dlfcn.h>

#include <memory>
#include <vector>

namespace e2e {

/// A program that uses SynapseAI.
class SynapseProgram {
public:
    static constexpr std::size_t kSize = (2 << 20) + 3; // of what write() and read() move

    explicit SynapseProgram(std::uint32_t module) : m_library(load()) {
        require(m_library != nullptr, "libSynapse.so does not load");
        require_success(acquire(m_library, module));
        auto stream = gaudi::SynapseStream::create(*gaudi::Synapse::loaded());
        require(stream.has_value(), "SynapseAI creates no stream");
        m_stream = std::move(*stream);
        require(m_stream->map_host(m_bounce.data(), kSize).has_value(), "SynapseAI maps no host memory");
    }
    static void *load() { return dlopen(STANDIN_SYNAPSE, RTLD_NOW | RTLD_LOCAL); }
    /// Initializes SynapseAI and acquires a card.
    static gaudi::vendor::Status acquire(void *library, std::uint32_t module) {
        const auto initialize = reinterpret_cast<gaudi::vendor::synInitialize *>(dlsym(library, "synInitialize"));
        const auto acquire =
            reinterpret_cast<gaudi::vendor::synDeviceAcquireByModuleId *>(dlsym(library, "synDeviceAcquireByModuleId"));
        require_success(initialize());
        gaudi::vendor::DeviceId device = 0;
        return acquire(&device, module);
    }
    void release() {
        require(m_stream->unmap_host(m_bounce.data()).has_value(), "SynapseAI does not unmap host memory");
        m_stream.reset();
        require_success(find_function<gaudi::vendor::synDeviceRelease>("synDeviceRelease")(0));
    }
    std::uint64_t allocate(std::uint64_t size) const {
        std::uint64_t address = 0;
        require_success(find_function<gaudi::vendor::synDeviceMalloc>("synDeviceMalloc")(0, size, 0, 0, &address));
        return address;
    }
    /// Leaves about `bytes` of the pool, which has no gaps.
    void allocate_all_but(std::uint64_t bytes) const {
        const auto &synapse = *gaudi::Synapse::loaded();
        const auto pool = synapse.pools(synapse.descriptor()).at(0);
        const std::uint64_t next = allocate(1);
        allocate(pool.begin + pool.size - next - bytes - 4096);
    }
    void write(std::uint64_t address, const std::vector<char> &bytes) {
        std::copy(bytes.begin(), bytes.end(), m_bounce.begin());
        copy(gaudi::vendor::HOST_TO_DRAM, address, reinterpret_cast<std::uint64_t>(m_bounce.data()));
    }
    std::vector<char> read(std::uint64_t address) {
        copy(gaudi::vendor::DRAM_TO_HOST, reinterpret_cast<std::uint64_t>(m_bounce.data()), address);
        return m_bounce;
    }

    /// Sends kSize bytes of the first side's memory to the second's.
    void exchange(Side &side, bool first, std::uint64_t address, unsigned seed) {
        const std::vector<char> bytes = pattern(kSize, seed);
        write(address, first ? bytes : std::vector<char>(kSize));
        side.meet();
        auto *data = reinterpret_cast<char *>(address);
        ucp_request_param_t param{};
        if (first)
            side.finish(ucp_tag_send_nbx(side.peer(), data, kSize, 1, &param), "tag send");
        else
            side.finish(ucp_tag_recv_nbx(side.worker(), data, kSize, 1, ~0ull, &param), "tag receive");
        side.meet();
        require(read(address) == bytes, "wrong bytes");
    }

private:
    static void require_success(gaudi::vendor::Status status) {
        require(status == gaudi::vendor::synSuccess, "SynapseAI returns an error");
    }
    template <class Function>
    Function *find_function(const char *name) const {
        return reinterpret_cast<Function *>(dlsym(m_library, name));
    }
    void copy(gaudi::vendor::CopyDirection direction, std::uint64_t to, std::uint64_t from) {
        require(m_stream->copy(direction, to, from, kSize).has_value(), "SynapseAI does not copy");
        const auto mark = m_stream->record_event();
        require(mark.has_value(), "SynapseAI records no event");
        while (!m_stream->has_ended(*mark).value()) {
        }
    }

    void *m_library;
    std::unique_ptr<gaudi::SynapseStream> m_stream;
    std::vector<char> m_bounce = std::vector<char>(kSize);
};

} // namespace e2e
