/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands for libucs and libucp of a UCX of any version: what ucx_gaudi asks them for. */
#define PUBLIC __attribute__((visibility("default")))

PUBLIC const char *ucp_get_version_string(void) { return FAKE_VERSION; }
PUBLIC const char *ucs_status_string(int status) { return status == 0 ? "Success" : "Error"; }
#ifdef FAKE_STATISTICS
PUBLIC int ucs_stats_node_alloc(void) { return 0; }
#endif
