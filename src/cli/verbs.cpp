// SPDX-License-Identifier: BSD-3-Clause
#include "verbs.h"

#include "os/format.h"

#include <dlfcn.h>

namespace gaudi::cli {
namespace {

template <class Function>
bool find(const char *name, Function &function) {
    function = reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
    return function != nullptr;
}

} // namespace

OrSentence<Verbs> load_verbs() {
    if (::dlsym(RTLD_DEFAULT, "ibv_get_device_list") == nullptr &&
        ::dlopen("libibverbs.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr)
        return Sentence(os::format("there is no libibverbs: {}", ::dlerror()));
    Verbs verbs;
    const bool complete =
        find("ibv_get_device_list", verbs.get_device_list) && find("ibv_free_device_list", verbs.free_device_list) &&
        find("ibv_get_device_name", verbs.get_device_name) && find("ibv_open_device", verbs.open_device) &&
        find("ibv_close_device", verbs.close_device) && find("ibv_query_port", verbs.query_port) &&
        find("ibv_query_gid", verbs.query_gid) && find("ibv_alloc_pd", verbs.alloc_pd) &&
        find("ibv_dealloc_pd", verbs.dealloc_pd) && find("ibv_create_cq", verbs.create_cq) &&
        find("ibv_destroy_cq", verbs.destroy_cq) && find("ibv_create_qp", verbs.create_qp) &&
        find("ibv_destroy_qp", verbs.destroy_qp) && find("ibv_modify_qp", verbs.modify_qp) &&
        find("ibv_reg_mr", verbs.reg_mr) && find("ibv_dereg_mr", verbs.dereg_mr);
    if (!complete)
        return Sentence("libibverbs lacks a function that every release has");
    find("ibv_reg_dmabuf_mr", verbs.reg_dmabuf_mr); // not in old releases
    return verbs;
}

} // namespace gaudi::cli
