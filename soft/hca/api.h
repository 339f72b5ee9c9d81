// SPDX-License-Identifier: BSD-3-Clause
// What the exported functions share. Nothing is thrown across them.
#pragma once

#include "hca.h"

#include <cerrno>
#include <new>
#include <system_error>

// The header hides some functions behind macros of their own names.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define SOFTHCA_API extern "C" __attribute__((visibility("default")))

namespace softhca {

/// The HCAs a context belongs to, or null in a child of the process that opened it: there it is only a memory.
inline Hca *hca_of(ibv_context *context) {
    Hca *hca = Context::of(context).hca;
    return Hca::current(hca) ? hca : nullptr;
}

/// Runs `call`, which returns 0 or an errno; what it throws is one too.
template <class Call>
int guarded(Call call) {
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    } catch (const std::system_error &error) {
        return error.code().value();
    } catch (...) {
        return EIO;
    }
}

/// The same for one that makes an object: `call` returns 0 and sets it, or returns an errno, which goes to errno.
template <class T, class Call>
T *made(Call call) {
    T *object = nullptr;
    const int error = guarded([&] { return call(object); });
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return object;
}

// ---- the fast calls, which are reached through the context (api_post.cpp, api_completion.cpp)
int poll_cq(ibv_cq *cq, int count, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad);
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad);

} // namespace softhca
