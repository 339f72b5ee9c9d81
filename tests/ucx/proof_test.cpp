// SPDX-License-Identifier: BSD-3-Clause
// The ABI proof, and the search for symbols, on libraries made to be wrong.
#include "ucx/proof.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

namespace gaudi::ucx {
namespace {

using testing::HasSubstr;

Functions functions_of(const char *library) {
    void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << ::dlerror();
    Functions functions;
#define RESOLVE(name) functions.name = reinterpret_cast<decltype(functions.name)>(::dlsym(handle, #name));
    GAUDI_UCX_UCT_REQUIRED(RESOLVE)
    GAUDI_UCX_UCT_OPTIONAL(RESOLVE)
#undef RESOLVE
    return functions;
}

std::string refusal(const char *library) {
    const Result<Tables> tables = prove_tables(functions_of(library));
    EXPECT_FALSE(tables);
    return tables ? "" : tables.error().text;
}

TEST(Proof, declared_tables_are_accepted) {
    const Result<Tables> tables = prove_tables(functions_of(FAKE_UCT));
    ASSERT_TRUE(tables) << tables.error().text;
    EXPECT_EQ(*tables, Tables::v1_22_0);
}

TEST(Proof, later_table_is_recognised) {
    const Result<Tables> tables = prove_tables(functions_of(FAKE_UCT_LATER));
    ASSERT_TRUE(tables) << tables.error().text;
    EXPECT_EQ(*tables, Tables::v1_22_x);
}

TEST(Proof, libuct_with_and_without_lists_is_accepted) {
    ASSERT_EQ(functions_of(FAKE_UCT).uct_ep_put_sgl_zcopy, nullptr);
    const Result<Tables> put = prove_tables(functions_of(FAKE_UCT_PUT_SGL));
    ASSERT_TRUE(put) << put.error().text;
    EXPECT_EQ(*put, Tables::v1_22_0);
    const Result<Tables> put_and_get = prove_tables(functions_of(FAKE_UCT_PUT_GET_SGL));
    ASSERT_TRUE(put_and_get) << put_and_get.error().text;
    EXPECT_EQ(*put_and_get, Tables::v1_23);
}

TEST(Proof, other_place_for_lists_is_refused) {
    EXPECT_EQ(refusal(FAKE_UCT_SGL_SHIFTED),
              "its uct_ep_put_sgl_zcopy calls slot 10 of uct_iface_internal_ops, slot 9 is needed");
    EXPECT_EQ(refusal(FAKE_UCT_ATTRIBUTE_SHIFTED),
              "its uct_iface_base_query_v2 answers bit 0 of the mask in another place than word 1 of "
              "uct_iface_attr_v2");
}

TEST(Proof, refusal_does_not_affect_the_next_proof) {
    const Functions good = functions_of(FAKE_UCT);
    EXPECT_TRUE(prove_tables(good));
    EXPECT_FALSE(prove_tables(functions_of(FAKE_UCT_MD_SHIFTED)));
    EXPECT_TRUE(prove_tables(good));
}

TEST(Proof, build_with_statistics_is_refused) {
    EXPECT_EQ(refusal(FAKE_UCT_STATISTICS),
              "its uct_base_iface has 1288 bytes, 1280 are needed (a build with statistics has more)");
    EXPECT_EQ(refusal(FAKE_UCT_EP_STATISTICS),
              "its uct_base_ep has 16 bytes, 8 are needed (a build with statistics has more)");
}

TEST(Proof, shifted_table_is_refused) {
    EXPECT_EQ(refusal(FAKE_UCT_MD_SHIFTED), "its uct_md_mem_reg_v2 calls slot 6 of uct_md_ops, slot 5 is needed");
    EXPECT_EQ(refusal(FAKE_UCT_IFACE_SHIFTED),
              "its uct_ep_get_address calls slot 35 of uct_iface_ops, slot 34 is needed");
}

TEST(Proof, other_internal_table_is_refused) {
    EXPECT_EQ(refusal(FAKE_UCT_INTERNAL_SHIFTED),
              "its uct_iface_query_v2 calls slot 1 of uct_iface_internal_ops, slot 0 is needed");
    EXPECT_EQ(refusal(FAKE_UCT_INTERNAL_MOVED),
              "its uct_iface_query_v2 looks for uct_iface_internal_ops in another place, slot 0 of it is needed");
}

TEST(Proof, dispatcher_that_calls_nothing_is_refused) {
    EXPECT_EQ(refusal(FAKE_UCT_CALLS_NOTHING),
              "its uct_md_mem_query_v2 calls no operation, slot 7 of uct_md_ops is needed");
}

TEST(Proof, minor_above_the_tested_one_is_newer) {
    EXPECT_FALSE(is_newer_than_tested({1, 22, 0}));
    EXPECT_FALSE(is_newer_than_tested({1, 23, 0}));
    EXPECT_FALSE(is_newer_than_tested({1, 23, 9}));
    EXPECT_TRUE(is_newer_than_tested({1, 24, 0}));
    EXPECT_TRUE(is_newer_than_tested({2, 0, 0}));
}

TEST(Proof, every_table_has_a_name) {
    EXPECT_STREQ(tables_name(Tables::v1_22_0), "1.22.0");
    EXPECT_STREQ(tables_name(Tables::v1_22_x), "1.22.x");
    EXPECT_STREQ(tables_name(Tables::v1_23), "1.23");
}

Result<Host *> host_of(const char *library) {
    void *handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
    EXPECT_NE(handle, nullptr) << ::dlerror();
    return Host::find(::dlsym(handle, "ucs_malloc"));
}

TEST(FakeHost, missing_symbol_is_named) {
    const Result<Host *> without_lookup = host_of(FAKE_UCS_WITHOUT_LOOKUP);
    ASSERT_FALSE(without_lookup);
    EXPECT_THAT(without_lookup.error().text, HasSubstr(FAKE_UCS_WITHOUT_LOOKUP));
    EXPECT_THAT(without_lookup.error().text, HasSubstr("cannot be used: its libucs has no ucs_memtype_cache_lookup"));

    const Result<Host *> without_leave = host_of(FAKE_UCS_WITHOUT_LEAVE);
    ASSERT_FALSE(without_leave);
    EXPECT_THAT(without_leave.error().text, HasSubstr("cannot be used: its libucm has no ucm_event_leave"));
}

TEST(FakeHost, missing_libuct_is_an_error_only_when_it_is_needed) {
    const Result<Host *> host = host_of(FAKE_UCS);
    ASSERT_TRUE(host) << host.error().text;
    EXPECT_FALSE((*host)->version());
    EXPECT_EQ((*host)->name(), std::string("UCX (") + FAKE_UCS + ")");
    const Result<void> uct = (*host)->find_uct();
    ASSERT_FALSE(uct);
    EXPECT_THAT(uct.error().text, HasSubstr("cannot be used: the process has not loaded its libuct"));
    EXPECT_EQ((*host)->call().uct_md_close, nullptr);
}

} // namespace
} // namespace gaudi::ucx
