// SPDX-License-Identifier: BSD-3-Clause
#include "host_access.h"

#include "host_memory.h"

#include <utility>

namespace gaudi {
namespace {

class DriverMapper : public HostMapper {
public:
    explicit DriverMapper(const thunk::Device &device) : m_device(device) {}

    Result<std::uint64_t> map(void *address, std::uint64_t length) override {
        return m_device.host_map(address, length);
    }
    Result<std::uint64_t> import_dmabuf(int dmabuf, std::uint64_t length) override {
        return m_device.import_dmabuf(dmabuf, length);
    }
    Result<void> unmap(std::uint64_t start) override { return m_device.unmap(start); }
    bool unmap_may_block() const override { return false; }

private:
    const thunk::Device m_device;
};

} // namespace

HostAccess::HostAccess(Session &session)
    : m_session(session), m_mapper(std::make_shared<DriverMapper>(session.device())) {}

std::shared_ptr<HostMapper> HostAccess::mapper() const {
    const os::MutexLock lock(m_mutex);
    return m_mapper;
}

void HostAccess::set_mapper(std::shared_ptr<HostMapper> mapper) {
    const os::MutexLock lock(m_mutex);
    m_mapper = std::move(mapper);
}

void HostAccess::release() { HostMemory::get().unmap_all(m_session); }

} // namespace gaudi
