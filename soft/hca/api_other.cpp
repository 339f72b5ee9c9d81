// SPDX-License-Identifier: BSD-3-Clause
// Functions with little or no effect here.
#include "api.h"

using namespace softhca;

SOFTHCA_API int ibv_fork_init() {
    return 0; // no pinned memory, so fork is safe
}

SOFTHCA_API ibv_fork_status ibv_is_fork_initialized() { return IBV_FORK_UNNEEDED; }

SOFTHCA_API int ibv_attach_mcast(ibv_qp *, const ibv_gid *, uint16_t) { return EOPNOTSUPP; }

SOFTHCA_API int ibv_detach_mcast(ibv_qp *, const ibv_gid *, uint16_t) { return EOPNOTSUPP; }

SOFTHCA_API int ibv_query_ece(ibv_qp *, ibv_ece *) { return EOPNOTSUPP; }

SOFTHCA_API int ibv_set_ece(ibv_qp *, ibv_ece *) { return EOPNOTSUPP; }

SOFTHCA_API ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return nullptr; // no extended posting
}

SOFTHCA_API int ibv_query_qp_data_in_order(ibv_qp *, ibv_wr_opcode, uint32_t) { return 0; }

SOFTHCA_API ibv_context *ibv_import_device(int) {
    errno = EOPNOTSUPP;
    return nullptr;
}

SOFTHCA_API int ibv_resolve_eth_l2_from_gid(ibv_context *, ibv_ah_attr *, uint8_t[6], uint16_t *) {
    return EOPNOTSUPP; // the link is InfiniBand
}

SOFTHCA_API const char *ibv_get_sysfs_path() { return "/sys"; }

SOFTHCA_API int ibv_read_sysfs_file(const char *, const char *, char *, size_t) {
    return -1; // the devices are not in sysfs
}
