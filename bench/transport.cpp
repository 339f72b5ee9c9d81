// SPDX-License-Identifier: BSD-3-Clause
#include "transport.h"

#include <sched.h>

namespace bench {

using uct_open::check;

Transport::Transport(std::size_t size) : m_host(size), m_card(m_domain, size) {
    check(uct_md_mem_reg(m_domain.md(), m_host.data(), size, UCT_MD_MEM_ACCESS_ALL, &m_registered), "uct_md_mem_reg");
}

Transport::~Transport() { uct_md_mem_dereg(m_domain.md(), m_registered); }

template <class Post>
void Transport::copy(std::size_t size, std::size_t stride, unsigned count, Post post) {
    uct_completion_t comp{[](uct_completion_t *) {}, static_cast<int>(count), UCS_OK};
    const auto card = reinterpret_cast<std::uint64_t>(m_card.data());
    for (unsigned i = 0; i < count; ++i) {
        const uct_iov_t iov{m_host.data() + i * stride, size, m_registered, 0, 1};
        const ucs_status_t status = post(m_ep.get(), &iov, std::size_t{1}, card + i * stride, uct_rkey_t{0}, &comp);
        if (status != UCS_INPROGRESS) {
            check(status, "a copy");
            --comp.count;
        }
    }
    while (comp.count != 0)
        // A software card needs a core, too; a card with null pace never makes this loop wait.
        if (uct_worker_progress(m_interface.worker()) == 0)
            sched_yield();
    check(comp.status, "a copy");
}

void Transport::put(std::size_t size, std::size_t stride, unsigned count) {
    copy(size, stride, count, [](auto... given) { return uct_ep_put_zcopy(given...); });
}

void Transport::get(std::size_t size, std::size_t stride, unsigned count) {
    copy(size, stride, count, [](auto... given) { return uct_ep_get_zcopy(given...); });
}

} // namespace bench
