// SPDX-License-Identifier: BSD-3-Clause
#include "host_mapping.h"

#include "thunk/report.h"

namespace gaudi {

HostMapping &HostMapping::operator=(HostMapping &&other) noexcept {
    if (this != &other) {
        end();
        m_session = other.m_session;
        m_mapper = std::move(other.m_mapper);
        m_start = other.m_start;
    }
    return *this;
}

void HostMapping::end() {
    const std::shared_ptr<HostMapper> mapper = std::move(m_mapper);
    if (mapper && !m_session->inherited() && !m_session->ended()) // else it is the parent's, or ended with the session
        thunk::release_or_report([&] { return mapper->unmap(m_start); });
}

} // namespace gaudi
