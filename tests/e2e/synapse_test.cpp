// SPDX-License-Identifier: BSD-3-Clause
// Two processes exchange memory of SynapseAI through UCX; a stand-in for SynapseAI holds all memory of their cards.
#include "conversation.h"
#include "framework/standin/synapse.h"
#include "gaudi/framework/synapse_stream.h"
#include "owner.h"
#include "soft/soft.h"

#include <dlfcn.h>

#include <memory>

using namespace e2e;
namespace vendor = gaudi::vendor;

namespace {

constexpr std::size_t kSize = (2 << 20) + 3;

/// A program that uses SynapseAI.
class Program {
public:
    explicit Program(std::uint32_t module) : m_library(dlopen(STANDIN_SYNAPSE, RTLD_NOW | RTLD_LOCAL)) {
        require(m_library != nullptr, "libSynapse.so does not load");
        vendor::DeviceId device = 0;
        require_success(find_function<vendor::synInitialize>("synInitialize")());
        require_success(
            find_function<vendor::synDeviceAcquireByModuleId>("synDeviceAcquireByModuleId")(&device, module));
        auto stream = gaudi::SynapseStream::create(*gaudi::Synapse::loaded());
        require(stream.has_value(), "SynapseAI creates no stream");
        m_stream = std::move(*stream);
        require(m_stream->map_host(m_bounce.data(), kSize).has_value(), "SynapseAI maps no host memory");
    }
    void release() {
        require(m_stream->unmap_host(m_bounce.data()).has_value(), "SynapseAI does not unmap host memory");
        m_stream.reset();
        require_success(find_function<vendor::synDeviceRelease>("synDeviceRelease")(0));
    }
    std::uint64_t allocate(std::uint64_t size) const {
        std::uint64_t address = 0;
        require_success(find_function<vendor::synDeviceMalloc>("synDeviceMalloc")(0, size, 0, 0, &address));
        return address;
    }
    void write(std::uint64_t address, const std::vector<char> &bytes) {
        std::copy(bytes.begin(), bytes.end(), m_bounce.begin());
        copy(gaudi::vendor::HOST_TO_DRAM, address, reinterpret_cast<std::uint64_t>(m_bounce.data()));
    }
    std::vector<char> read(std::uint64_t address) {
        copy(gaudi::vendor::DRAM_TO_HOST, reinterpret_cast<std::uint64_t>(m_bounce.data()), address);
        return m_bounce;
    }

private:
    static void require_success(vendor::Status status) {
        require(status == vendor::synSuccess, "SynapseAI returns an error");
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

class Synapse : public ::testing::TestWithParam<const char *> {
protected:
    Synapse() {
        if (*GetParam())
            setenv("UCX_TLS", GetParam(), 1);
    }
    static void transfer(Side &side, bool first, Program &program, std::uint64_t address, unsigned seed) {
        const std::vector<char> bytes = pattern(kSize, seed);
        program.write(address, first ? bytes : std::vector<char>(kSize));
        side.meet();
        auto *data = reinterpret_cast<char *>(address);
        ucp_request_param_t param{};
        if (first)
            side.finish(ucp_tag_send_nbx(side.peer(), data, kSize, 1, &param), "tag send");
        else
            side.finish(ucp_tag_recv_nbx(side.worker(), data, kSize, 1, ~0ull, &param), "tag receive");
        side.meet();
        require(program.read(address) == bytes, "wrong bytes");
    }

    soft::FreshDirectory m_cards{"SOFTGAUDI_DIR", "softgaudi"}, m_fabric{"SOFTHCA_DIR", "softhca"};
};

TEST_P(Synapse, memory_from_before_and_after_ucx_start_is_exchanged) {
    std::unique_ptr<Program> program;
    std::uint64_t before = 0;
    Options options;
    options.before = [&](bool first) {
        program = std::make_unique<Program>(first ? 0 : 1);
        before = program->allocate(kSize);
    };
    run_pair(
        [&](Side &side, bool first) {
            const std::uint64_t after = program->allocate(3 * kSize);
            transfer(side, first, *program, before, 1);
            transfer(side, first, *program, after + 12345, 2);
            program->release();
        },
        options);
}

TEST_P(Synapse, memory_of_a_gaudi3_is_exchanged) {
    setenv("SOFTGAUDI_MODEL", "gaudi3", 1);
    std::unique_ptr<Program> program;
    std::uint64_t memory = 0;
    Options options;
    options.before = [&](bool first) {
        program = std::make_unique<Program>(first ? 0 : 1);
        memory = program->allocate(2 * kSize);
    };
    run_pair(
        [&](Side &side, bool first) {
            transfer(side, first, *program, memory + 77, 1);
            program->release();
        },
        options);
}

TEST_P(Synapse, memory_of_a_card_acquired_after_ucx_start_is_exchanged) {
    run_pair([&](Side &side, bool first) {
        Program program(first ? 0 : 1);
        const std::uint64_t memory = program.allocate(2 * kSize);
        transfer(side, first, program, memory + 5, 1);
        program.release();
    });
}

INSTANTIATE_TEST_SUITE_P(, Synapse, ::testing::Values("", "rc_v,gaudi_cpy", "tcp,gaudi_cpy"), [](const auto &one) {
    const std::string transports = one.param;
    return transports.empty() ? "as_ucx_chooses" : transports.substr(0, transports.find(',')) + "_and_gaudi_cpy";
});

} // namespace
