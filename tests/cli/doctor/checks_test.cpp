// SPDX-License-Identifier: BSD-3-Clause
// Every check of ucx_gaudi doctor, from facts: once triggering, once not.
#include "cli/doctor/check.h"
#include "healthy.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <set>

namespace gaudi::cli::doctor {
namespace {

using doctor_test::healthy_server;
using ::testing::HasSubstr;

struct Trigger {
    std::string id;
    Verdict verdict;
    std::string part; // of the sentence or the fix
    std::function<void(Facts &)> spoil;
};

void set(Facts &facts, const std::string &name, const std::string &value, const std::string &source = "environment") {
    std::erase_if(facts.settings, [&](const SettingFacts &setting) { return setting.name == name; });
    facts.settings.push_back({name, value, source});
}

const std::vector<Trigger> &triggers() {
    static const std::vector<Trigger> all = {
        {"GD001", Verdict::fail, "5.12", [](Facts &f) { f.kernel.release = "5.10.0-28-amd64"; }},
        {"GD002", Verdict::fail, "ib_umem_dmabuf_get", [](Facts &f) { f.kernel.has_umem_dmabuf = false; }},
        {"GD003", Verdict::warn, "CONFIG_PCI_P2PDMA", [](Facts &f) { f.kernel.options["CONFIG_PCI_P2PDMA"] = "n"; }},
        {"GD004", Verdict::fail, "2.28", [](Facts &f) { f.process.glibc = "2.17"; }},
        {"GD010", Verdict::fail, "modprobe habanalabs", [](Facts &f) { f.driver.loaded = false; }},
        {"GD010", Verdict::fail, "0000:b3:00.0", [](Facts &f) { f.pci_cards[1].driver.clear(); }},
        {"GD012", Verdict::warn, "intel_vpu", [](Facts &f) { f.nodes[0].driver = "intel_vpu"; }},
        {"GD013", Verdict::fail, "/dev/accel/accel1", [](Facts &f) { f.nodes[1].accessible = false; }},
        {"GD014", Verdict::fail, "--device", [](Facts &f) { f.process.container = "docker", f.nodes.clear(); }},
        {"GD015", Verdict::warn, "card 1",
         [](Facts &f) { f.process.initial_pid_namespace = false, f.cards[1].in_use = true; }},
        {"GD020", Verdict::fail, "GAUDI_THUNK", [](Facts &f) { f.thunk = {}; }},
        {"GD020", Verdict::fail, "lacks", [](Facts &f) { f.thunk.why_not = "it lacks hlthunk_open"; }},
        {"GD020", Verdict::warn, "ucx_gaudi run", [](Facts &f) { f.thunk = {}, f.pci_cards.clear(); }},
        {"GD021", Verdict::warn, "nothing is exported",
         [](Facts &f) { f.thunk.missing = {"hlthunk_cs_flush_pci_hbw_writes"}; }},
        {"GD022", Verdict::warn, "/opt/x", [](Facts &f) { f.thunk.copies.emplace_back("/opt/x/libhl-thunk.so"); }},
        {"GD023", Verdict::fail, "in reset", [](Facts &f) { f.cards[0].state = "in reset"; }},
        {"GD023", Verdict::fail, "no card", [](Facts &f) { f.cards.clear(), f.why_no_card = "there is no card"; }},
        {"GD024", Verdict::warn, "card 1: 3", [](Facts &f) { f.cards[1].hard_resets = 3; }},
        {"GD025", Verdict::warn, "pid 7 (python)",
         [](Facts &f) {
             for (CardFacts &card : f.cards)
                 card.in_use = true, card.holders = {{7, "python", {}, false}};
         }},
        {"GD026", Verdict::warn, "ucx_gaudi verify",
         [](Facts &f) { f.cards[0].completion_by_flag = false, f.cards[0].completion_reason = "no record"; }},
        {"GD027", Verdict::fail, "entry 2",
         [](Facts &f) { f.mapping_table_error = "GAUDI_MAPPING_TABLE: entry 2 is wrong"; }},
        {"GD028", Verdict::warn, "HABANA_VISIBLE_MODULES", [](Facts &f) { set(f, "HABANA_VISIBLE_DEVICES", "0"); }},
        {"GD028", Verdict::fail, "HABANA_VISIBLE_MODULES=9",
         [](Facts &f) { f.cards.clear(), set(f, "HABANA_VISIBLE_MODULES", "9"); }},
        {"GD030", Verdict::warn, "256 MiB of", [](Facts &f) { f.pci_cards[0].bar_bytes = 256 << 20; }},
        {"GD031", Verdict::warn, "iommu=pt", [](Facts &f) { f.pci_cards[0].iommu = "DMA-FQ"; }},
        {"GD032", Verdict::warn, "0000:17:00.0", [](Facts &f) { f.pci_cards[0].bridges[1].acs_control = 0x1d; }},
        {"GD032", Verdict::warn, "0000:1b:00.0", [](Facts &f) { f.nics[0].acs[2].acs_control = 0x4; }},
        {"GD033", Verdict::warn, "0000:b3:00.0", [](Facts &f) { f.nics.pop_back(); }},
        {"GD040", Verdict::fail, "no UCX was found", [](Facts &f) { f.ucx.clear(); }},
        {"GD040", Verdict::fail, "is older", [](Facts &f) { f.ucx[0].why_unusable = "is older than 1.22"; }},
        {"GD041", Verdict::warn, "LD_LIBRARY_PATH", [](Facts &f) { f.ucx[0].why_unusable = "is older than 1.22"; }},
        {"GD042", Verdict::warn, "2 UCX",
         [](Facts &f) {
             f.ucx.push_back({"python3", "/venv/libucs-1.so.0.0.0", "1.23.0", "", f.ucx[0].files, "", "", ""});
         }},
        {"GD043", Verdict::fail, "libgaudi-core.so.1", [](Facts &f) { f.missing_modules = {"libgaudi-core.so.1"}; }},
        {"GD043", Verdict::fail, "ucx-gaudi-plugin", [](Facts &f) { f.module_directory.clear(); }},
        {"GD044", Verdict::fail, "ucx_gaudi enable", [](Facts &f) { f.ucx[0].files.clear(); }},
        {"GD045", Verdict::warn, ".so.0", [](Facts &f) { f.ucx[0].files.pop_back(); }},
        {"GD046", Verdict::fail, "undefined symbol", [](Facts &f) { f.ucx[0].load_error = "undefined symbol: x"; }},
        {"GD047", Verdict::warn, "pid 4711 (python3) has /usr/lib/libucs.so.0 and /venv/libucs-1.so.0",
         [](Facts &f) { f.cards[0].holders[0].libucs->emplace_back("/venv/libucs-1.so.0"); }},
        {"GD047", Verdict::warn, "without the module gaudi",
         [](Facts &f) { f.cards[0].holders[0].has_modules = false; }},
        {"GD050", Verdict::fail, "UCX_TLS=rc,sm,gaudi_cpy", [](Facts &f) { set(f, "UCX_TLS", "rc,sm"); }},
        {"GD050", Verdict::fail, "/etc/ucx/ucx.conf",
         [](Facts &f) { set(f, "UCX_TLS", "^gaudi_cpy", "/etc/ucx/ucx.conf"); }},
        {"GD050", Verdict::warn, "RDMA", [](Facts &f) { set(f, "UCX_TLS", "tcp,gaudi"); }},
        {"GD051", Verdict::warn, "mlx5_0:1", [](Facts &f) { set(f, "UCX_NET_DEVICES", "eth0"); }},
        {"GD052", Verdict::fail, "UCX_ACC_DEVICES", [](Facts &f) { set(f, "UCX_ACC_DEVICES", "cuda0"); }},
        {"GD053", Verdict::fail, "^gaudi", [](Facts &f) { set(f, "UCX_MODULES", "^gaudi"); }},
        {"GD054", Verdict::warn, "small message", [](Facts &f) { set(f, "UCX_MEMTYPE_CACHE", "n"); }},
        {"GD055", Verdict::warn, "UCX_IB_GPU_DIRECT_RDMA", [](Facts &f) { set(f, "UCX_IB_GPU_DIRECT_RDMA", "no"); }},
        {"GD055", Verdict::warn, "UCX_GAUDI_COPY_DMABUF", [](Facts &f) { set(f, "UCX_GAUDI_COPY_DMABUF", "n"); }},
        {"GD056", Verdict::warn, "working directory", [](Facts &f) { set(f, "UCX_LOG_LEVEL", "info", "./ucx.conf"); }},
        {"GD057", Verdict::warn, "RDMAV_FORK_SAFE=1",
         [](Facts &f) {
             std::erase_if(f.settings, [](const SettingFacts &s) { return s.name == "RDMAV_FORK_SAFE"; });
         }},
        {"GD058", Verdict::warn, "registers its memory anew", [](Facts &f) { set(f, "UCX_RCACHE_ENABLE", "n"); }},
        {"GD058", Verdict::warn, "far from the card", [](Facts &f) { set(f, "UCX_IB_PREFER_NEAREST_DEVICE", "n"); }},
        {"GD058", Verdict::warn, "unset UCX_ZCOPY_THRESH", [](Facts &f) { set(f, "UCX_ZCOPY_THRESH", "inf"); }},
        {"GD058", Verdict::warn, "in pieces", [](Facts &f) { set(f, "UCX_RNDV_SCHEME", "put_ppln"); }},
        {"GD059", Verdict::fail, "gaudi:4M", [](Facts &f) { set(f, "UCX_RNDV_FRAG_MEM_TYPES", "host,gaudi"); }},
        {"GD060", Verdict::fail, "no RDMA device has an active port",
         [](Facts &f) {
             for (NicFacts &nic : f.nics)
                 nic.active = false;
         }},
        {"GD060", Verdict::warn, "mlx5_1", [](Facts &f) { f.nics[1].active = false; }},
        {"GD061", Verdict::fail, "524 (ENOTSUPP", [](Facts &f) { f.nics[0].dmabuf_errno = 524; }},
        {"GD062", Verdict::warn, "UCX_NET_DEVICES=mlx5_0:1",
         [](Facts &f) {
             f.nics.push_back({"hbl_0", "", -1, true, EBADF, "", {}, {}});
         }},
        {"GD070", Verdict::warn, "8192 KiB", [](Facts &f) { f.process.locked_memory_bytes = 8 << 20; }},
        {"GD071", Verdict::warn, "256", [](Facts &f) { f.process.open_files = 256; }},
        {"GD072", Verdict::warn, "--shm-size", [](Facts &f) { f.process.shm_free_bytes = 1 << 20; }},
        {"GD072", Verdict::warn, "mount", [](Facts &f) { f.process.shm_total_bytes = 0; }},
        {"GD073", Verdict::warn, "madvise", [](Facts &f) { f.process.transparent_huge_pages = "never"; }},
        {"GD090", Verdict::fail, "through mlx5_0: refused",
         [](Facts &f) {
             f.round_trips->push_back({1, "mlx5_0", false, "refused"});
         }},
    };
    return all;
}

Outcome outcome_of(const Facts &facts, const std::string &id) {
    for (const auto &[check, outcome] : judge(facts))
        if (check->id == id)
            return outcome;
    ADD_FAILURE() << "there is no check " << id;
    return {};
}

TEST(Checks, healthy_server_is_fine) {
    const Facts facts = healthy_server();
    for (const auto &[check, outcome] : judge(facts))
        EXPECT_EQ(outcome.verdict, check->id == "GD014" ? Verdict::skip : Verdict::ok) // that is about containers
            << check->id << ": " << outcome.sentence;
}

TEST(Checks, each_fault_is_named) {
    for (const Trigger &trigger : triggers()) {
        Facts facts = healthy_server();
        trigger.spoil(facts);
        const Outcome outcome = outcome_of(facts, trigger.id);
        EXPECT_STREQ(name_of(outcome.verdict), name_of(trigger.verdict)) << trigger.id << ": " << outcome.sentence;
        EXPECT_THAT(outcome.sentence + " " + outcome.fix, HasSubstr(trigger.part)) << trigger.id;
        EXPECT_FALSE(outcome.fix.empty()) << trigger.id << " says nothing to do";
    }
}

TEST(Checks, each_id_has_a_fault_and_its_order) {
    std::set<std::string> tested;
    for (const Trigger &trigger : triggers())
        tested.insert(trigger.id);
    std::string last;
    for (const auto &[check, outcome] : judge(healthy_server())) {
        EXPECT_LT(last, check->id);
        last = check->id;
        EXPECT_TRUE(tested.contains(last) || last == "GD011") // that one only tells
            << last << " has no test that triggers it";
    }
}

TEST(Checks, unreadable_facts_are_skipped_with_the_reason) {
    Facts facts = healthy_server();
    facts.pci_cards[0].bridges[1] = {"0000:17:00.0", {}, "needs root"};
    EXPECT_EQ(outcome_of(facts, "GD032").verdict, Verdict::skip);
    EXPECT_THAT(outcome_of(facts, "GD032").sentence, HasSubstr("needs root"));
    facts.kernel.has_umem_dmabuf.reset();
    EXPECT_EQ(outcome_of(facts, "GD002").verdict, Verdict::skip);
    facts.kernel.options.clear();
    EXPECT_EQ(outcome_of(facts, "GD003").verdict, Verdict::skip);
    facts.round_trips.reset();
    EXPECT_EQ(outcome_of(facts, "GD090").verdict, Verdict::skip);
}

TEST(Checks, software_server_needs_no_limit_of_locked_memory) {
    Facts facts = healthy_server();
    facts.process.locked_memory_bytes = 1 << 16;
    facts.thunk.software = true;
    EXPECT_EQ(outcome_of(facts, "GD070").verdict, Verdict::skip);
}

TEST(Checks, variable_of_the_container_runtime_is_usual_in_a_container) {
    Facts facts = healthy_server();
    set(facts, "HABANA_VISIBLE_DEVICES", "all");
    facts.process.container = "docker";
    EXPECT_EQ(outcome_of(facts, "GD028").verdict, Verdict::ok);
}

TEST(Checks, cards_with_the_same_cause_share_a_sentence) {
    Facts facts = healthy_server();
    for (CardFacts &card : facts.cards)
        card.completion_by_flag = false, card.completion_reason = "no record";
    for (NicFacts &nic : facts.nics)
        nic.dmabuf_errno = 524;
    EXPECT_THAT(outcome_of(facts, "GD026").sentence, ::testing::EndsWith("; cards 0-1: no record"));
    EXPECT_THAT(outcome_of(facts, "GD061").sentence, ::testing::StartsWith("mlx5_0, mlx5_1 answer 524 (ENOTSUPP"));
}

TEST(Checks, cards_on_pci_that_the_library_does_not_show_are_counted) {
    Facts facts = healthy_server();
    facts.cards.clear();
    facts.why_no_card = "there is no Gaudi card";
    EXPECT_EQ(outcome_of(facts, "GD023").sentence, "libhl-thunk shows none of the 2 Gaudi cards on PCI");
}

TEST(Checks, mainline_driver_is_told) {
    Facts facts = healthy_server();
    facts.driver.kind = "mainline";
    EXPECT_THAT(outcome_of(facts, "GD011").sentence, HasSubstr("mainline"));
    EXPECT_THAT(outcome_of(healthy_server(), "GD011").sentence, HasSubstr("production"));
}

TEST(Checks, empty_facts_crash_no_check) {
    for (const auto &[check, outcome] : judge(Facts()))
        EXPECT_FALSE(outcome.sentence.empty()) << check->id;
}

TEST(FactsFile, written_facts_are_read_again) {
    const Facts facts = healthy_server();
    const auto read = read_facts(write_facts(facts), "dump.json");
    ASSERT_TRUE(read) << read.error();
    EXPECT_EQ(write_facts(*read), write_facts(facts));
}

TEST(FactsFile, wrong_files_are_refused_with_a_sentence) {
    const auto refusal = [](const std::string &text) {
        const auto read = read_facts(text, "x.json");
        return read ? "read" : read.error();
    };
    const std::string start = "x.json is no file of ucx_gaudi dump: ";
    EXPECT_EQ(refusal(""), start + "it is empty");
    EXPECT_EQ(refusal("[1, 2, no]"), start + "its byte 9 is not JSON");
    EXPECT_EQ(refusal("[]"), start + "it is no JSON object");
    EXPECT_EQ(refusal("1e999"), start + "it is not JSON");
    EXPECT_EQ(refusal("{}"), start + "it has no key 'schema'");
    EXPECT_EQ(refusal(R"({"schema": 1, "cards": []})"), start + "it has no key 'kernel'"); // as of info --json
    const std::string whole = write_facts(healthy_server());
    const auto with = [&](const char *key, const nlohmann::json &value) {
        auto tree = nlohmann::json::parse(whole);
        tree[key] = value;
        return tree.dump();
    };
    EXPECT_EQ(refusal(with("schema", 7)), "x.json has schema 7, and this ucx_gaudi reads 1");
    EXPECT_EQ(refusal(with("cards", 3)), start + "its key 'cards' has a value of another type");
    EXPECT_EQ(refusal(with("nics", nlohmann::json::array({1}))), start + "its key 'nics' has a value of another type");
    for (std::size_t cut = 1; cut < whole.size() - 2; cut += 97)
        EXPECT_EQ(refusal(whole.substr(0, cut)), start + "it ends too early, at byte " + std::to_string(cut));
}

TEST(FactsFile, more_devices_or_bridges_than_a_machine_has_are_refused) {
    const auto refusal = [](const std::function<void(Facts &)> &forge) {
        Facts facts = healthy_server();
        forge(facts);
        const auto read = read_facts(write_facts(facts), "x.json");
        return read ? "read" : read.error();
    };
    const std::string start = "x.json is no file of ucx_gaudi dump: ";
    EXPECT_EQ(refusal([](Facts &f) { f.cards.resize(1024), f.pci_cards[0].bridges.resize(64); }), "read");
    EXPECT_EQ(refusal([](Facts &f) { f.cards.resize(1025); }),
              start + "its key 'cards' has 1025 entries, more than 1024");
    EXPECT_EQ(refusal([](Facts &f) { f.pci_cards.resize(1025); }),
              start + "its key 'pci_cards' has 1025 entries, more than 1024");
    EXPECT_EQ(refusal([](Facts &f) { f.nics.resize(1025); }),
              start + "its key 'nics' has 1025 entries, more than 1024");
    const std::string bridges = start + "a device has 65 bridges above it, more than 64";
    EXPECT_EQ(refusal([](Facts &f) { f.pci_cards[1].bridges.resize(65); }), bridges);
    EXPECT_EQ(refusal([](Facts &f) { f.nics[0].bridges.resize(65); }), bridges);
}

} // namespace
} // namespace gaudi::cli::doctor
