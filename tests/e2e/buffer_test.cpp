// SPDX-License-Identifier: BSD-3-Clause
// Buffers of the core's C API are Gaudi memory to UCX, whether they were allocated before it started or after. The program
// loads the core as Python's ctypes does.
#include "buffer/buffer.h"

#include "conversation.h"

#include <dlfcn.h>

using namespace e2e;

namespace {

constexpr std::size_t kSize = (3 << 20) + 5;

template <class Function>
Function *look_up(const char *name) {
    static void *core = dlopen(GAUDI_CORE, RTLD_NOW | RTLD_LOCAL);
    void *found = core ? dlsym(core, name) : nullptr;
    require(found != nullptr, name);
    return reinterpret_cast<Function *>(found);
}
#define CALL(function, ...) look_up<decltype(function)>(#function)(__VA_ARGS__)

class DeviceBuffer {
public:
    /// Each side has a card of its own.
    explicit DeviceBuffer(bool first) {
        std::array<char, 400> problem{};
        if (CALL(gaudi_buffer_allocate, first ? "0" : "1", kSize, &m_address, problem.data(), problem.size()) != 0)
            throw Failure(problem.data());
    }
    ~DeviceBuffer() { CALL(gaudi_buffer_free, m_address, nullptr, 0); }
    DeviceBuffer(const DeviceBuffer &) = delete;
    DeviceBuffer &operator=(const DeviceBuffer &) = delete;

    void *data() const { return m_address; }
    void write(const std::vector<char> &bytes) {
        require(CALL(gaudi_buffer_write, m_address, bytes.data(), bytes.size(), nullptr, 0) == 0, "write failed");
    }
    std::vector<char> read() const {
        std::vector<char> bytes(kSize);
        require(CALL(gaudi_buffer_read, bytes.data(), m_address, kSize, nullptr, 0) == 0, "read failed");
        return bytes;
    }

private:
    void *m_address = nullptr;
};

/// The memory type that UCX finds by itself.
ucs_memory_type_t detect(ucp_context_h context, void *address) {
    ucp_mem_map_params_t params{};
    params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH;
    params.address = address;
    params.length = kSize;
    ucp_mem_h memh = nullptr;
    check(ucp_mem_map(context, &params, &memh), "ucp_mem_map");
    ucp_mem_attr_t attr{};
    attr.field_mask = UCP_MEM_ATTR_FIELD_MEM_TYPE;
    const ucs_status_t status = ucp_mem_query(memh, &attr);
    ucp_mem_unmap(context, memh);
    check(status, "ucp_mem_query");
    return attr.mem_type;
}

TEST(DeviceBuffer, allocated_before_and_after_ucx_starts_is_recognised_and_sent) {
    std::unique_ptr<DeviceBuffer> early;
    Options options;
    options.before = [&](bool first) { early = std::make_unique<DeviceBuffer>(first); };
    run_pair(
        [&](Side &side, bool first) {
            DeviceBuffer late(first);
            for (DeviceBuffer *buffer : {early.get(), &late}) {
                require(detect(side.context(), buffer->data()) == UCS_MEMORY_TYPE_GAUDI, "it is not Gaudi memory");
                const std::vector<char> bytes = pattern(kSize, buffer == &late ? 1 : 2);
                buffer->write(first ? bytes : std::vector<char>(kSize));
                side.meet();
                ucp_request_param_t param{};
                if (first)
                    side.finish(ucp_tag_send_nbx(side.peer(), buffer->data(), kSize, 1, &param), "tag send");
                else
                    side.finish(ucp_tag_recv_nbx(side.worker(), buffer->data(), kSize, 1, ~0ull, &param),
                                "tag receive");
                side.meet();
                require(buffer->read() == bytes, "wrong bytes");
            }
        },
        options);
}

} // namespace
