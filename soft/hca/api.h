// SPDX-License-Identifier: BSD-3-Clause
// Helpers of the exported functions. No exception leaves them.
#pragma once

#include "hca.h"

#include <cerrno>
#include <new>
#include <system_error>

// verbs.h defines these functions as macros too.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

#define SOFTHCA_API extern "C" __attribute__((visibility("default")))

namespace softhca {

/// The HCAs that a context belongs to; null in a child of the process that opened it, where it cannot be used.
inline Hca *hca_of(ibv_context *context) {
    Hca *hca = Context::of(context).hca;
    return Hca::is_current(hca) ? hca : nullptr;
}

/// Runs `call`, which returns 0 or an errno; exceptions become an errno too.
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

/// The same for functions that create an object: `call` sets it and returns 0, or returns an errno for `errno`.
template <class T, class Call>
T *make_object(Call call) {
    T *object = nullptr;
    const int error = guarded([&] { return call(object); });
    if (error != 0) {
        errno = error;
        return nullptr;
    }
    return object;
}

// ---- functions called through the context's table (api_post.cpp, api_completion.cpp)
int poll_cq(ibv_cq *cq, int count, ibv_wc *wc);
int req_notify_cq(ibv_cq *cq, int solicited_only);
int post_send(ibv_qp *qp, ibv_send_wr *wr, ibv_send_wr **bad);
int post_recv(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad);
int post_srq_recv(ibv_srq *srq, ibv_recv_wr *wr, ibv_recv_wr **bad);

} // namespace softhca
