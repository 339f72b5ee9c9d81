// SPDX-License-Identifier: BSD-3-Clause
#include "ucx/edge.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <string>

namespace gaudi::ucx {
namespace {

Error error_of(int code) { return {code, "call", "what happened"}; }

class Md : public uct_md {
public:
    void close() { closed = true; }
    Result<void> query(uct_md_attr_v2 *attr) {
        attr->max_alloc = 7;
        return {};
    }
    Result<void> mem_free(uct_mem_h) { return tl::unexpected(error_of(EBUSY)); }
    ucs_status_t mem_query(const void *, std::size_t, uct_md_mem_attr_v2 *) { return UCS_ERR_INVALID_ADDR; }
    Result<void> mem_reg(void *, std::size_t length, const uct_md_mem_reg_params *, uct_mem_h *) {
        if (length == 0)
            throw std::bad_alloc();
        throw std::runtime_error("the reason");
    }
    void mkey_pack(uct_mem_h, void *, std::size_t, const uct_md_mkey_pack_params *, void *) {}
    Result<void> query_devices(uct_tl_device_resource **, unsigned *count) {
        *count = 5;
        return {};
    }
    void failed(const Error &error) noexcept { errors += error.text + ";"; }

    bool closed = false;
    std::string errors;
};

class Component : public uct_component {
public:
    Result<void> rkey_compare(uct_rkey_t one, uct_rkey_t other, const uct_rkey_compare_params *, int *result) {
        *result = one == other ? 0 : 1;
        return {};
    }
};

class Ep : public uct_ep {
public:
    Result<ucs_status_t> put_zcopy(const uct_iov *, std::size_t count, std::uint64_t, uct_rkey_t, uct_completion *) {
        if (count == 0)
            return tl::unexpected(error_of(EINVAL));
        return UCS_INPROGRESS;
    }
    Result<std::size_t> put_bcopy(uct_pack_callback_t pack, void *, std::uint64_t, uct_rkey_t) {
        if (pack == nullptr)
            return tl::unexpected(error_of(ENOMEM));
        return std::size_t{5000000000};
    }
    ucs_status_t put_sgl_zcopy(void *const *, const std::size_t *, const uct_mem_h *, const std::uint64_t *,
                               const uct_rkey_t *, const std::size_t *, const std::size_t *, std::size_t,
                               uct_completion *) {
        return UCS_OK;
    }
    void destroy() { throw std::runtime_error("must not get out"); }
    bool is_connected(const uct_ep_is_connected_params *) { throw 1; }
};

class Iface : public uct_base_iface {
public:
    unsigned progress() { return 3; }
    bool is_reachable_v2(const uct_iface_is_reachable_params *) { return true; }
    Result<void> create_ep(const uct_ep_params *params, uct_ep_h *ep) {
        *ep = &created;
        seen = params->path_index;
        return {};
    }
    uct_ep created{};
    unsigned seen = 0;
};

TEST(Edge, slot_calls_the_operation_of_the_class) {
    const uct_md_ops ops = make_md_ops<Md>();
    Md md;
    uct_md_attr_v2 attr{};
    EXPECT_EQ(ops.query(&md, &attr), UCS_OK);
    EXPECT_EQ(attr.max_alloc, 7U);
    EXPECT_EQ(ops.mem_query(&md, nullptr, 0, nullptr), UCS_ERR_INVALID_ADDR);
    EXPECT_EQ(ops.mkey_pack(&md, nullptr, nullptr, 0, nullptr, nullptr), UCS_OK);
    ops.close(&md);
    EXPECT_TRUE(md.closed);
    EXPECT_EQ(md.errors, "");
}

TEST(Edge, error_becomes_a_status_and_reaches_the_object) {
    const uct_md_ops ops = make_md_ops<Md>();
    Md md;
    EXPECT_EQ(ops.mem_free(&md, nullptr), UCS_ERR_BUSY);
    EXPECT_EQ(ops.mem_reg(&md, nullptr, 0, nullptr, nullptr), UCS_ERR_NO_MEMORY);
    EXPECT_EQ(ops.mem_reg(&md, nullptr, 1, nullptr, nullptr), UCS_ERR_IO_ERROR);
    EXPECT_EQ(md.errors, "what happened;mem_reg failed: out of memory;mem_reg failed: the reason;");
}

TEST(Edge, slot_without_an_operation_is_unsupported) {
    const uct_md_ops ops = make_md_ops<Md>();
    Md md;
    EXPECT_EQ(ops.mem_advise(&md, nullptr, nullptr, 0, 0), UCS_ERR_UNSUPPORTED);
    const auto *slots = reinterpret_cast<ucs_status_t (*const *)()>(&ops);
    for (std::size_t slot = 11; slot < 16; ++slot)
        EXPECT_EQ(slots[slot](), UCS_ERR_UNSUPPORTED) << slot;
}

// The tables only copy the addresses of UCX's functions, so none has to be real.
class IfaceEdge : public testing::Test {
protected:
    Functions functions;
    uct_iface_ops ops = make_iface_ops<Iface, Ep>(functions);
    uct_iface_internal_ops internal = make_iface_internal_ops<Iface, Ep>(functions);
    Iface iface;
    Ep ep;
};

TEST_F(IfaceEdge, status_of_an_operation_is_returned) {
    const uct_iov iov{};
    EXPECT_EQ(ops.ep_put_zcopy(&ep, &iov, 1, 0, 0, nullptr), UCS_INPROGRESS);
    EXPECT_EQ(ops.ep_put_zcopy(&ep, &iov, 0, 0, 0, nullptr), UCS_ERR_INVALID_PARAM);
}

TEST_F(IfaceEdge, lists_are_offered_to_a_ucx_that_has_them) {
    const auto put = [this](const uct_iface_internal_ops &table) {
        return table.ep_put_sgl_zcopy(&ep, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, 0, nullptr);
    };
    EXPECT_EQ(put(internal), UCS_ERR_UNSUPPORTED);
    functions.uct_ep_put_sgl_zcopy = internal.ep_put_sgl_zcopy; // any address
    EXPECT_EQ(put(make_iface_internal_ops<Iface, Ep>(functions)), UCS_OK);
}

TEST_F(IfaceEdge, length_or_its_error_is_returned) {
    EXPECT_EQ(ops.ep_put_bcopy(
                  &ep, [](void *, void *) { return std::size_t{0}; }, nullptr, 0, 0),
              5000000000);
    EXPECT_EQ(ops.ep_put_bcopy(&ep, nullptr, nullptr, 0, 0), UCS_ERR_NO_MEMORY);
}

TEST_F(IfaceEdge, unsupported_length_is_negative_in_all_its_bits) {
    using Bcopy = ssize_t (*)(uct_ep_h);
    EXPECT_EQ(reinterpret_cast<Bcopy>(ops.am_atomic_tag[2])(&ep), UCS_ERR_UNSUPPORTED);
}

TEST_F(IfaceEdge, exception_of_a_void_operation_is_swallowed) { ops.ep_destroy(&ep); }

TEST_F(IfaceEdge, predicate_that_throws_is_false) { EXPECT_EQ(internal.ep_is_connected(&ep, nullptr), 0); }

TEST_F(IfaceEdge, number_is_returned) {
    EXPECT_EQ(ops.iface_progress(&iface.super), 3U);
    EXPECT_EQ(internal.iface_is_reachable_v2(&iface.super, nullptr), 1);
}

TEST_F(IfaceEdge, endpoint_is_created_by_its_interface) {
    uct_ep_params params{};
    uct_ep_h created = nullptr;
    EXPECT_EQ(ops.ep_create(&params, &created), UCS_ERR_INVALID_PARAM);
    params.field_mask = UCT_EP_PARAM_FIELD_IFACE;
    params.iface = &iface.super;
    params.path_index = 9;
    EXPECT_EQ(ops.ep_create(&params, &created), UCS_OK);
    EXPECT_EQ(created, &iface.created);
    EXPECT_EQ(iface.seen, 9U);
}

TEST(Edge, component_and_transport_call_their_operations) {
    Component component{};
    fill_component<Component>(component);
    int result = 0;
    EXPECT_EQ(component.uct_component::rkey_compare(&component, 1, 2, nullptr, &result), UCS_OK);
    EXPECT_EQ(result, 1);
    EXPECT_EQ(component.rkey_ptr(&component, 0, nullptr, 0, nullptr), UCS_ERR_UNSUPPORTED);
    component.md_vfs_init(nullptr);

    uct_tl tl{};
    fill_tl<Md>(tl);
    Md md;
    unsigned count = 0;
    EXPECT_EQ(tl.query_devices(&md, nullptr, &count), UCS_OK);
    EXPECT_EQ(count, 5U);
    EXPECT_EQ(tl.iface_open(&md, nullptr, nullptr, nullptr, nullptr), UCS_ERR_UNSUPPORTED);
}

} // namespace
} // namespace gaudi::ucx
