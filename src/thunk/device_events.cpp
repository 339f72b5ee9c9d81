// SPDX-License-Identifier: BSD-3-Clause
#include "calls.h"
#include "device.h"

namespace gaudi::thunk {

Result<int> Device::create_notifier() const {
    constexpr const char *name = "hlthunk_notifier_create";
    if (!m_library->has_events())
        return tl::unexpected(m_library->lacks(name));
    const int notifier = invoke(m_library->call().notifier_create, m_fd);
    if (notifier < 0)
        return tl::unexpected(from_negative(notifier, name));
    return notifier;
}

Result<Events> Device::receive(int notifier, std::uint32_t timeout_ms) const {
    constexpr const char *name = "hlthunk_notifier_recv";
    if (!m_library->has_events())
        return tl::unexpected(m_library->lacks(name));
    Events events;
    const int rc = invoke(m_library->call().notifier_recv, m_fd, notifier, &events.mask, &events.count, 0U, timeout_ms);
    if (rc < 0) // a failed read of the eventfd is a bare -1
        return tl::unexpected(from_mixed(rc, errno, name));
    if (events.count == 0)
        events.mask = 0;
    return events;
}

Result<void> Device::release_notifier(int notifier) const {
    constexpr const char *name = "hlthunk_notifier_release";
    if (!m_library->has_events())
        return tl::unexpected(m_library->lacks(name));
    const int rc = invoke(m_library->call().notifier_release, m_fd, notifier);
    if (rc < 0)
        return tl::unexpected(from_negative(rc, name));
    return {};
}

template <class Record>
Result<Record> Device::event_record(hlthunk_event_record_id id) const {
    constexpr const char *name = "hlthunk_get_event_record";
    if (!m_library->has_event_record())
        return tl::unexpected(m_library->lacks(name));
    Roomy<Record> record;
    const int rc = invoke(m_library->call().get_event_record, m_fd, id, static_cast<void *>(&record.value));
    if (rc < 0)
        return tl::unexpected(from_negative(rc, name, std::to_string(id)));
    return record.value;
}

Result<hlthunk_event_record_open_dev_time> Device::last_open() const {
    return event_record<hlthunk_event_record_open_dev_time>(HLTHUNK_OPEN_DEV);
}

Result<hlthunk_event_record_cs_timeout> Device::last_cs_timeout() const {
    return event_record<hlthunk_event_record_cs_timeout>(HLTHUNK_CS_TIMEOUT);
}

Result<hlthunk_event_record_razwi_event> Device::last_razwi() const {
    return event_record<hlthunk_event_record_razwi_event>(HLTHUNK_RAZWI_EVENT);
}

Result<hlthunk_event_record_undefined_opcode> Device::last_undefined_opcode() const {
    return event_record<hlthunk_event_record_undefined_opcode>(HLTHUNK_UNDEFINED_OPCODE);
}

Result<hlthunk_event_record_critical_hw_err> Device::last_hw_error() const {
    return event_record<hlthunk_event_record_critical_hw_err>(HLTHUNK_HW_ERR_OPCODE);
}

Result<hlthunk_event_record_critical_fw_err> Device::last_fw_error() const {
    return event_record<hlthunk_event_record_critical_fw_err>(HLTHUNK_FW_ERR_OPCODE);
}

Result<PageFault> Device::last_page_fault() const {
    constexpr const char *name = "hlthunk_get_page_fault_info";
    constexpr std::uint32_t most = 1U << 20; // above any real count: 2^32-1 is what an unfilled answer says
    if (!m_library->has_page_fault())
        return tl::unexpected(m_library->lacks(name));

    std::uint32_t room = 256;
    for (;;) {
        std::vector<hlthunk_page_fault_mapping> mappings(room);
        Roomy<hlthunk_page_fault_info> info;
        info.value.mappings = mappings.data();
        const int rc = invoke(m_library->call().get_page_fault_info, m_fd, &info.value, room);
        const std::uint32_t count = info.value.num_of_mappings;
        if (rc == -ENOMEM && count > room && count <= most) {
            room = count; // too little room, and now we know how much it takes
            continue;
        }
        if (rc < 0)
            return tl::unexpected(from_negative(rc, name));
        mappings.resize(count <= room ? count : 0);
        return PageFault{info.value.timestamp, info.value.addr, info.value.engine_id, std::move(mappings)};
    }
}

} // namespace gaudi::thunk
