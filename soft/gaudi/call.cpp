// SPDX-License-Identifier: BSD-3-Clause
#include "call.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>

namespace softgaudi {
namespace {

enum class Kind { acts, queries, waits };

Kind kind_of(Function function) {
    const std::string_view name = kFunctions[function.index];
    if (name.starts_with("wait_for_cs") || name.starts_with("wait_for_interrupt") || name == "notifier_recv")
        return Kind::waits;
    return name.starts_with("get_") || name.starts_with("is_") ? Kind::queries : Kind::acts;
}

/// Drivers of other devices have an errno of their own for calls that are not theirs.
int errno_of_other_file(int fd, int error) {
    struct stat status {};
    return fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) ? EINVAL : error;
}

} // namespace

Call::Call(Function function, Card *card) : m_card(card) {
    if (!Server::get()) {
        m_error = ENODEV;
        return;
    }
    begin(function);
}

Call::Call(Function function, int fd, Needs needs) {
    Server *server = Server::get();
    if (!server) {
        m_error = ENODEV;
        return;
    }
    const Server::Node node = server->find_node(fd);
    if (!node.card) {
        m_stray = true;
        m_error = server->config().quirks.fallback ? errno_of_other_file(fd, errno) : errno;
        return;
    }
    m_card = node.card;
    m_control = node.control;
    begin(function);
    if (m_error != 0 || needs == Needs::descriptor)
        return;
    if (needs == Needs::compute && m_control) {
        m_error = ENOTTY;
        return;
    }
    if (needs == Needs::compute && m_card->behaviour().duplicate != 0 && m_card->is_duplicate(fd)) {
        m_error = m_card->behaviour().duplicate;
        return;
    }
    const CardLock lock(*m_card);
    if (m_control)
        m_card->end_context_of_dead_holder();
    if (m_card->state().lost)
        m_error = ENODEV;
    else if (needs == Needs::compute)
        m_error = m_card->refusal();
    else if (needs == Needs::working_card && m_card->status() != HL_DEVICE_STATUS_OPERATIONAL)
        m_error = EBUSY;
}

Call::~Call() {
    if (m_acts)
        Server::get()->clock().end_host_call();
}

void Call::begin(Function function) {
    Server *server = Server::get();
    if (server->clock().is_virtual()) {
        const Kind kind = kind_of(function);
        m_acts = kind == Kind::acts;
        if (m_acts)
            server->clock().begin_host_call();
        else if (kind == Kind::queries)
            server->clock().count_host_query();
    }
    server->count_call(function.index, m_card);
    if (server->config().faults.empty())
        return;
    const Server::Fault fault = server->match_faults(function.index, m_card);
    if (fault.delay_us != 0)
        server->clock().spend_host_time(fault.delay_us * 1000);
    if (m_card && (fault.reset || fault.lose)) {
        const CardLock lock(*m_card);
        if (fault.lose)
            m_card->mark_lost();
        else
            m_card->hard_reset(HL_NOTIFIER_EVENT_GENERAL_HW_ERR | HL_NOTIFIER_EVENT_DEVICE_UNAVAILABLE);
    }
    m_hang = fault.hang;
    m_timeout_ns = fault.timeout_ns;
    m_skip = fault.skip;
    m_error = fault.error;
}

int not_modelled(Function function, int error) {
    static std::array<std::atomic<bool>, kFunctions.size()> reported;
    if (!reported[function.index].exchange(true))
        std::fprintf(stderr, "softgaudi: hlthunk_%s is not modelled; it fails as an unsupported call\n",
                     kFunctions[function.index].data());
    return fail(error);
}

} // namespace softgaudi
