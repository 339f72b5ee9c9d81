// SPDX-License-Identifier: BSD-3-Clause
// The declarations of ucx_gaudi explain against the headers of a real UCX.
#include <ucp/api/ucp.h>

#include "cli/explain/ucp_abi.h"

#include <gtest/gtest.h>

#include <type_traits>

namespace {

namespace ours = gaudi::cli::explain;

#define SAME_PLACE(own, own_field, real, real_field)                                                                   \
    static_assert(offsetof(ours::own, own_field) == offsetof(real, real_field));                                       \
    static_assert(sizeof(ours::own::own_field) == sizeof(real::real_field))

SAME_PLACE(UcpParams, field_mask, ucp_params_t, field_mask);
SAME_PLACE(UcpParams, features, ucp_params_t, features);
SAME_PLACE(UcpContextAttributes, memory_types, ucp_context_attr_t, memory_types);
SAME_PLACE(UcpEpParams, address, ucp_ep_params_t, address);
SAME_PLACE(UcpMemMapParams, address, ucp_mem_map_params_t, address);
SAME_PLACE(UcpMemMapParams, length, ucp_mem_map_params_t, length);
SAME_PLACE(UcpMemMapParams, memory_type, ucp_mem_map_params_t, memory_type);
SAME_PLACE(UcpRequestParam, op_attr_mask, ucp_request_param_t, op_attr_mask);
SAME_PLACE(UcpRequestParam, flags, ucp_request_param_t, flags);
SAME_PLACE(UcpRequestParam, memh, ucp_request_param_t, memh);
SAME_PLACE(UcpRequestAttributes, debug_string, ucp_request_attr_t, debug_string);
SAME_PLACE(UcpRequestAttributes, debug_string_size, ucp_request_attr_t, debug_string_size);

// UCP may read and write as much as its own structures have.
static_assert(sizeof(ours::UcpParams) >= sizeof(ucp_params_t));
static_assert(sizeof(ours::UcpContextAttributes) >= sizeof(ucp_context_attr_t));
static_assert(sizeof(ours::UcpWorkerParams) >= sizeof(ucp_worker_params_t));
static_assert(sizeof(ours::UcpEpParams) >= sizeof(ucp_ep_params_t));
static_assert(sizeof(ours::UcpMemMapParams) >= sizeof(ucp_mem_map_params_t));
static_assert(sizeof(ours::UcpRequestParam) >= sizeof(ucp_request_param_t));
static_assert(sizeof(ours::UcpRequestAttributes) >= sizeof(ucp_request_attr_t));

static_assert(ours::UcpParams::kFeatures == UCP_PARAM_FIELD_FEATURES);
static_assert(ours::UcpParams::kTag == UCP_FEATURE_TAG && ours::UcpParams::kRma == UCP_FEATURE_RMA);
static_assert(ours::UcpContextAttributes::kMemoryTypes == UCP_ATTR_FIELD_MEMORY_TYPES);
static_assert(ours::UcpEpParams::kRemoteAddress == UCP_EP_PARAM_FIELD_REMOTE_ADDRESS);
static_assert(ours::UcpMemMapParams::kAddress == UCP_MEM_MAP_PARAM_FIELD_ADDRESS);
static_assert(ours::UcpMemMapParams::kLength == UCP_MEM_MAP_PARAM_FIELD_LENGTH);
static_assert(ours::UcpMemMapParams::kMemoryType == UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE);
static_assert(ours::UcpRequestParam::kFlags == UCP_OP_ATTR_FIELD_FLAGS);
static_assert(ours::UcpRequestParam::kMemh == UCP_OP_ATTR_FIELD_MEMH);
static_assert(ours::UcpRequestParam::kNoImmediateCompletion == UCP_OP_ATTR_FLAG_NO_IMM_CMPL);
static_assert(ours::UcpRequestParam::kForceClose == UCP_EP_CLOSE_FLAG_FORCE);
static_assert(ours::UcpRequestAttributes::kInfoString == UCP_REQUEST_ATTR_FIELD_INFO_STRING);
static_assert(ours::UcpRequestAttributes::kInfoStringSize == UCP_REQUEST_ATTR_FIELD_INFO_STRING_SIZE);
static_assert(static_cast<int>(gaudi::ucx::UCS_MEMORY_TYPE_GAUDI) == static_cast<int>(UCS_MEMORY_TYPE_GAUDI));

TEST(UcpAbi, status_in_a_pointer_is_read_as_ucx_does) {
    for (const int status : {0, -1, -3, -22, -99, -100}) {
        void *pointer = reinterpret_cast<void *>(static_cast<intptr_t>(status));
        EXPECT_EQ(ours::is_request(pointer), UCS_PTR_IS_PTR(pointer)) << status;
        EXPECT_EQ(static_cast<int>(ours::status_in(pointer)), static_cast<int>(UCS_PTR_RAW_STATUS(pointer))) << status;
    }
    int request = 0;
    EXPECT_TRUE(ours::is_request(&request));
}

} // namespace
