// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "host_mapping.h"

#include <memory>

namespace gaudi {

/// The access of a session's copies to host memory: how mappings are made, and their end with the session.
class HostAccess : public SessionPart {
public:
    static constexpr PartKind kKind = PartKind::host;

    explicit HostAccess(Session &session);

    /// The driver's mapper, unless an engine has brought its own.
    std::shared_ptr<HostMapper> mapper() const;
    void set_mapper(std::shared_ptr<HostMapper> mapper);

    /// Ends all mappings of the session.
    void release() override;

private:
    Session &m_session;
    mutable os::Mutex m_mutex{rank::kHostMapper};
    std::shared_ptr<HostMapper> m_mapper GAUDI_GUARDED_BY(m_mutex);
};

} // namespace gaudi
